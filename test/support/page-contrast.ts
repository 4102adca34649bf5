/** Finds texts of a page that cannot be read: with too little contrast, or cut off at the edge of the window. */
import type { Page } from "playwright-core";

/** Texts whose contrast is below 4.5 to 1 (WCAG 2.2, success criterion 1.4.3), with the ratio. */
export function findFaintTexts(page: Page): Promise<readonly string[]> {
  return page.evaluate<string[]>(`(${faintTexts.replace("MIN", "4.5")})()`);
}

/** Elements with text of their own that reach beyond the window, or whose text is cut. */
export function findCutElements(page: Page): Promise<readonly string[]> {
  return page.evaluate<string[]>(`(${cutElements})()`);
}

/** Runs in the page, whose types are unknown to the tests. */
const shownElements = `
  const shown = [...document.querySelectorAll("main *, header *")].filter((element) => {
    const { width, height, right } = element.getBoundingClientRect();
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
    return hasText && width > 1 && height > 1 && right > 0;
  });`;

const faintTexts = `() => {
  ${shownElements}
  const read = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const groundOf = (element) => {
    for (let each = element; each !== null; each = each.parentElement) {
      const color = read(getComputedStyle(each).backgroundColor);
      if (color[3] !== 0) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  return shown.flatMap((element) => {
    // A disabled control may be faint.
    if (element.closest(":disabled") !== null) return [];
    const [text, ground] = [read(getComputedStyle(element).color).slice(0, 3), groundOf(element)].map(luminance);
    const ratio = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    return ratio >= MIN ? [] : [element.textContent + " " + ratio.toFixed(2)];
  });
}`;

const cutElements = `() => {
  ${shownElements}
  const isCut = (element) => {
    const { left, right } = element.getBoundingClientRect();
    const { display, overflowX } = getComputedStyle(element);
    const scrolls = display !== "inline" && overflowX !== "visible" && element.scrollWidth > element.clientWidth;
    return left < 0 || right > document.documentElement.clientWidth || scrolls;
  };
  return shown.filter(isCut).map((element) => element.textContent);
}`;
