#include "plugins/jobs/report/page.hpp"

#include "core/base/digest.hpp"
#include "plugins/jobs/report/base64.hpp"
#include "plugins/jobs/report/page_files.hpp"

namespace kinora::core::report {
namespace {

// The files with this ending as one text. Without lines that import: a page in one file has nothing to import from.
std::string joined(std::string_view ending) {
  std::string out;
  for (const PageFile& file : page_files()) {
    if (!file.path.ends_with(ending)) continue;
    for (std::string_view rest = file.content; !rest.empty();) {
      const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
      if (!line.starts_with("import ")) out += line;
      rest.remove_prefix(line.size());
    }
  }
  return out;
}

// The source expression by which a Content-Security-Policy allows exactly this text.
std::string source_hash(std::string_view text) {
  const std::string hex = sha256(text);
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return "'sha256-" + base64(bytes) + "'";
}

}  // namespace

std::string script_safe(const json& data) {
  const std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size() + 64);
  for (const char c : text) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

std::string make_page(const Gathered& gathered) {
  const std::string style = joined(".css"), script = joined(".js"), html = joined(".html");
  const std::map<std::string, std::string, std::less<>> values{
      {"style", style},         {"style-source", source_hash(style)},   {"script", script},
      {"line", gathered.line},  {"script-source", source_hash(script)}, {"data", script_safe(gathered.data)}};
  std::string out;
  for (size_t at = 0; at < html.size();) {
    const size_t from = std::min(html.find('@', at), html.size());
    out.append(html, at, from - at);
    if (from == html.size()) break;
    const size_t to = html.find('@', from + 1);
    out += values.at(html.substr(from + 1, to - from - 1));
    at = to + 1;
  }
  return out;
}

}  // namespace kinora::core::report
