/** Takes the spans of a proxy in the benchmark, as a collector does, and discards them. The argument is the port. */
import { createServer } from "node:http";

createServer((request, response) => {
  request.resume();
  request.on("end", () => response.writeHead(200, { "content-type": "application/x-protobuf" }).end());
}).listen(Number(process.argv[2]), "127.0.0.1");
