/** Markdown of models and tools, made safe. Loaded when there is some to show. */
import DOMPurify from "dompurify";
import { Marked } from "marked";

const marked = new Marked({ gfm: true, breaks: false });

/** What such a text may hold. No images: fetching one would tell its server who reads, and when. */
const TAGS = [
  "h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol",
  "li", "table", "thead", "tbody", "tr", "th", "td", "a",
];

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("rel", "noopener noreferrer nofollow");
    node.setAttribute("target", "_blank");
  }
  // A heading of theirs stands under ours, and a table may be wider than the page.
  if (node.tagName === "TABLE") node.setAttribute("tabindex", "0");
});

export function render(text: string): DocumentFragment {
  const html = marked.parse(text, { async: false });
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "align", "start"],
    ALLOWED_URI_REGEXP: /^https?:\/\//i,
    RETURN_DOM_FRAGMENT: true,
  });
}
