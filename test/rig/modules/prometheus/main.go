// Command prometheus reads a page of metrics as a Prometheus server does, for the tests of the page: by the server's own parser, with
// the validation of its storage, and the quantiles of its queries. It takes the Content-Type as its argument and the page on
// standard input, and writes what it has read as JSON.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"os"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

type bucket struct {
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	Count float64 `json:"count"`
}

type nativeHistogram struct {
	Labels    map[string]string   `json:"labels"`
	Schema    int32               `json:"schema"`
	Count     uint64              `json:"count"`
	Sum       float64             `json:"sum"`
	Zeros     uint64              `json:"zeros"`
	Buckets   []bucket            `json:"buckets"`
	Quantiles map[string]float64  `json:"quantiles"`
	Exemplars []map[string]string `json:"exemplars"`
}

type page struct {
	// The values of all series with one value, such as the buckets by bound.
	Series     map[string]float64 `json:"series"`
	Histograms []nativeHistogram  `json:"histograms"`
}

func read(content []byte, contentType string) (page, error) {
	read := page{Series: map[string]float64{}, Histograms: []nativeHistogram{}}
	parser, err := textparse.New(content, contentType, nil, textparse.ParserOptions{
		KeepClassicOnClassicAndNativeHistograms: true,
	})
	if err != nil {
		return read, err
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return read, nil
		}
		if err != nil {
			return read, err
		}
		switch entry {
		case textparse.EntrySeries:
			_, _, value := parser.Series()
			// JSON has no NaN, which gauges have before their first measurement.
			if math.IsNaN(value) {
				continue
			}
			var series labels.Labels
			parser.Labels(&series)
			others := labels.NewBuilder(series).Del(labels.MetricName).Labels()
			read.Series[series.Get(labels.MetricName)+others.String()] = value
		case textparse.EntryHistogram:
			histogram, err := readHistogram(parser)
			if err != nil {
				return read, err
			}
			read.Histograms = append(read.Histograms, histogram)
		}
	}
}

func readHistogram(parser textparse.Parser) (nativeHistogram, error) {
	var series labels.Labels
	parser.Labels(&series)
	_, _, histogram, _ := parser.Histogram()
	if err := histogram.Validate(); err != nil {
		return nativeHistogram{}, fmt.Errorf("%s: %w", series, err)
	}
	result := nativeHistogram{
		Labels: series.Map(), Schema: histogram.Schema, Count: histogram.Count, Sum: histogram.Sum, Zeros: histogram.ZeroCount,
		Buckets: []bucket{}, Quantiles: map[string]float64{}, Exemplars: []map[string]string{},
	}
	float := histogram.ToFloat(nil)
	for buckets := float.PositiveBucketIterator(); buckets.Next(); {
		if at := buckets.At(); at.Count > 0 {
			result.Buckets = append(result.Buckets, bucket{Lower: at.Lower, Upper: at.Upper, Count: at.Count})
		}
	}
	if histogram.Count > 0 {
		for _, q := range []float64{0.5, 0.9, 0.99} {
			result.Quantiles[fmt.Sprint(q)], _ = promql.HistogramQuantile(q, float, "", posrange.PositionRange{})
		}
	}
	for example := (exemplar.Exemplar{}); parser.Exemplar(&example); {
		result.Exemplars = append(result.Exemplars, example.Labels.Map())
	}
	return result, nil
}

func main() {
	content, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	read, err := read(content, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(read); err != nil {
		log.Fatal(err)
	}
}
