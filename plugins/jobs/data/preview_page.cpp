#include <algorithm>

#include "core/base/quantity.hpp"
#include "plugins/jobs/data/base64.hpp"
#include "plugins/jobs/data/preview.hpp"
#include "plugins/jobs/data/words.hpp"

namespace kinora::data {
namespace {

// The colours of the report (plugins/jobs/report/page/style.css).
constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --paper: #fdfdfc; --panel: #ffffff;
        --line: #d9dcdf; --text: #1a1c1f; --muted: #59616b; --failed: #b02a20; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #121416; --panel: #1a1d20; --line: #33373c; --text: #e6e7e8; --muted: #9ba2aa; --failed: #f88a7e; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem; max-width: 88rem; background: var(--paper); color: var(--text);
       font: 0.95rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif;
       font-variant-numeric: tabular-nums; }
h1 { margin: 0; font-size: 1.5rem; overflow-wrap: anywhere; }
header p { margin: 0.25rem 0 1.5rem; color: var(--muted); }
ol { margin: 0; padding: 0; list-style: none; display: grid; gap: 1.25rem;
     grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); }
li { background: var(--panel); border: 1px solid var(--line); border-radius: 0.5rem; overflow: hidden; }
img { display: block; width: 100%; background: var(--line); height: 12rem; object-fit: contain; }
.frames { height: auto; max-height: 12rem; }
.still, :root:has(#stands:checked) .moving { display: none; }
:root:has(#stands:checked) .still { display: block; }
@media (prefers-reduced-motion: reduce) {
  .moving, .stands { display: none; } .still { display: block; }
}
label { display: inline-block; margin-bottom: 1.5rem; }
@media print { li { break-inside: avoid; } .stands { display: none; } }
.none { margin: 0; padding: 1.5rem 1rem; color: var(--failed);
         border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
div { padding: 0.75rem 1rem 1rem; }
h2 { margin: 0; font-size: 1rem; overflow-wrap: anywhere; }
.facts { margin: 0.15rem 0 0.5rem; color: var(--muted); font-size: 0.85rem; overflow-wrap: anywhere; }
.caption { margin: 0; overflow-wrap: anywhere; white-space: pre-line; max-height: 12rem; overflow-y: auto; }
)";

constexpr const char* kStands =
    "<label class=\"stands\"><input type=\"checkbox\" id=\"stands\"> Stand still</label>";

std::string facts_text(const Card& card) {
  std::string out;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) out += (out.empty() ? "" : " · ") + text;
  };
  if (card.picture.width > 0 && card.picture.height > 0)
    add(fmt::format("{} × {}", card.picture.width, card.picture.height));
  if (card.picture.seconds > 0) add(words::duration(card.picture.seconds));
  add(card.field);
  add(core::format_size(card.bytes));
  add(card.shard);
  return out;
}

std::string card_html(const Card& card) {
  std::string out = "<li>";
  const auto image = [](const char* kind, const std::string& alt, const char* type,
                        const std::string& bytes) {
    return fmt::format("<img class=\"{}\" alt=\"{}\" src=\"data:image/{};base64,{}\">", kind, escaped(alt),
                       type, core::base64(bytes));
  };
  if (!card.preview.empty())
    out += image("moving", "Preview of " + card.key, "webp", card.preview) +
           image("still", "First frame of " + card.key, "webp", card.still);
  else if (card.picture.jpeg.empty())
    out += "<p class=\"none\">" + escaped("No picture: " + card.picture.reason) + "</p>";
  else
    out += image("frames", "Frames of " + card.key, "jpeg", card.picture.jpeg);
  out += "<div><h2>" + escaped(card.key) + "</h2><p class=\"facts\">" + escaped(facts_text(card)) +
         "</p><p class=\"caption\">" + escaped(card.caption.empty() ? "(no caption)" : card.caption) +
         "</p></div>";
  return out + "</li>\n";
}

// The length of the well-formed UTF-8 character at the start of the text (RFC 3629); 0: there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80   ? 1
                        : byte(0) < 0xC2 ? 0
                        : byte(0) < 0xE0 ? 2
                        : byte(0) < 0xF0 ? 3
                        : byte(0) < 0xF5 ? 4
                                         : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char c = text.front();
    if (length == 0 || (static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t') || c == 127)
      out += "\uFFFD";
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string preview_page(const DataFolder& folder, const std::vector<Card>& cards) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  out += escaped(folder.uri) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<header><h1>" +
         escaped(folder.uri) + "</h1>\n<p>" +
         escaped(core::counted(static_cast<int64_t>(cards.size()), "sample", "samples") + " from " +
                 core::counted(static_cast<int64_t>(folder.shards.size()), "shard", "shards") + ", " +
                 core::format_size(folder.bytes())) +
         "</p>" +
         (std::ranges::any_of(cards, [](const Card& card) { return !card.preview.empty(); }) ? kStands : "") +
         "</header>\n<main><ol>\n";
  for (const auto& card : cards) out += card_html(card);
  return out + "</ol></main>\n</body>\n</html>\n";
}

}  // namespace kinora::data
