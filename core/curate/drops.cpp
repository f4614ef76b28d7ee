#include "core/curate/drops.hpp"

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/curate/facts.hpp"
#include "kinora/abi/base.h"
#include "kinora/error.hpp"

namespace kinora::core {

void apply_edits(const EditHistory& edits, std::map<std::string, Drop>& drops) {
  for (const auto& [key, edit] : edits.edited()) {
    if (!edit.keep) continue;
    drops.erase(key);
    if (!*edit.keep) drops[key] = {"studio.reject", edit.reason.value_or(""), "", 1};
  }
}

std::map<std::string, Drop> drops_in(const std::filesystem::path& decisions) {
  std::map<std::string, Drop> out;
  std::ifstream in(decisions, std::ios::binary);
  if (!in) throw Error(KINORA_NOT_FOUND, decisions.string() + ": is not there; run the dedup job again");
  size_t number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    const auto line = nlohmann::json::parse(text, nullptr, false);
    const std::string key = text_in(line, "key"), end = text_in(line, "end");
    if (key.empty() || end.empty())
      throw Error(KINORA_DATA, fmt::format("{}: line {}: no \"key\" or no \"end\"; run the dedup job again",
                                           decisions.string(), number));
    if (end == "kept") continue;
    std::string rule = text_in(line, "rule");
    if (rule.empty()) rule = "dedup." + end;
    out[key] = {rule, text_in(line, "reason"), text_in(line, "of"), number_in(line, "score")};
  }
  return out;
}

}  // namespace kinora::core
