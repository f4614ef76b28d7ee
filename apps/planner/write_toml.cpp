#include "apps/planner/write_toml.hpp"

#include <algorithm>
#include <optional>

#include "core/config/document.hpp"

namespace kinora::core::plan {
namespace {

// Offset of the start of a line (counted from 1).
size_t line_start(const std::string& text, int line) {
  size_t at = 0;
  for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
  return at;
}

// Offset behind the value that begins at `at`, after its closing bracket; strings and comments may contain
// brackets.
size_t value_end(const std::string& text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      for (++at; at < text.size() && text[at] != c; ++at)
        if (c == '"' && text[at] == '\\') ++at;
    } else if (c == '#') {
      at = std::min(text.find('\n', at), text.size()) - 1;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == '\n' && depth <= 0) {
      break;
    }
  }
  return std::min(at, text.size());
}

std::optional<size_t> job_index(const nlohmann::json& root, const std::string& job) {
  const auto jobs = root.value("job", nlohmann::json::array());
  for (size_t i = 0; i < jobs.size(); ++i)
    if (jobs[i].value("name", "") == job) return i;
  return std::nullopt;
}

}  // namespace

Result<std::string> with_values(std::string text, const std::string& job,
                                const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [key, line] : values) {
    const auto doc = Document::parse(text, "run file");
    if (!doc) return doc.failure();
    const auto index = job_index(doc->root(), job);
    if (!index) return fail(KINORA_NOT_FOUND, "plan: the file has no job '{}'", job);
    const std::string at = "/job/" + std::to_string(*index);
    const bool has = doc->root()["job"][*index].contains(key);
    const int found = doc->key(at + (has ? "/" + key : "/name")).line;
    const size_t begin = line_start(text, found), end = value_end(text, text.find('=', begin));
    if (has)
      text.replace(begin, end - begin, line);
    else
      text.insert(end, "\n" + line);
  }
  return text;
}

}  // namespace kinora::core::plan
