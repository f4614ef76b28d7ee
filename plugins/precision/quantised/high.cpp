#include "plugins/precision/quantised/high.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "kinora/error.hpp"

namespace kinora::quantised {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  for (size_t from = star; from <= name.size(); ++from)
    if (matches(pattern.substr(star + 1), name.substr(from))) return true;
  return false;
}

// The blocks of "first K" or "last K"; nothing for other texts.
std::optional<int64_t> blocks_of(std::string_view text, std::string_view word, int64_t blocks) {
  if (!text.starts_with(word)) return std::nullopt;
  text.remove_prefix(word.size());
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !std::isfinite(number) || number < 0 || (!rest.empty() && rest != "%"))
    throw Error(KINORA_ERROR_INVALID, "high: '" + std::string(word) + std::string(text) +
                                          "' has no count of blocks; write '" + std::string(word) +
                                          "2' or '" + std::string(word) + "15%'");
  if (rest.empty() ? number != std::floor(number) : number > 100)
    throw Error(KINORA_ERROR_INVALID, "high: '" + std::string(word) + std::string(text) +
                                          "': must be a whole number of blocks, or a share up to 100%");
  const double count = rest.empty() ? number : number / 100 * static_cast<double>(blocks);
  return std::llround(std::min(count, static_cast<double>(blocks)));
}

// The name with * for its first number, which is the block's.
std::string any_block(std::string name) {
  const size_t from = name.find_first_of("0123456789");
  if (from == name.npos) return name;
  const size_t end = std::min(name.find_first_not_of("0123456789", from), name.size());
  return name.replace(from, end - from, "*");
}

// Sets the layers that the pattern names.
void choose(const std::string& pattern, const std::vector<Layer>& layers, int64_t last_block,
            std::vector<bool>& out) {
  const int64_t blocks = std::max<int64_t>(0, last_block - 1);
  int64_t from = 0, to = -1;  // blocks that are high
  bool is_name = false;
  if (pattern == "embedding") {
    from = -1, to = 0;
  } else if (pattern == "head") {
    from = std::max<int64_t>(1, last_block), to = last_block;
  } else if (const auto first = blocks_of(pattern, "first ", blocks)) {
    from = 1, to = *first;
  } else if (const auto last = blocks_of(pattern, "last ", blocks)) {
    from = blocks - *last + 1, to = blocks;
  } else {
    is_name = true;
  }
  bool any = !is_name;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& [name, block] = layers[i];
    const bool here =
        is_name ? matches(pattern, name) || matches(pattern + ".weight", name) : block >= from && block <= to;
    any |= here;
    if (here) out[i] = true;
  }
  if (!any)
    throw Error(KINORA_ERROR_INVALID,
                "high: no layer is called '" + pattern +
                    "'; write embedding, head, first N, last N or the name of a layer, such as '" +
                    (layers.empty() ? "" : layers.back().name) +
                    "', with or without .weight, as `kinora convert --high` takes it, and '*' for any text");
}

}  // namespace

std::vector<bool> high_layers(const std::vector<std::string>& patterns, const std::vector<Layer>& layers,
                              int64_t last_block) {
  std::vector<bool> out(layers.size());
  std::string problems;
  for (const std::string& pattern : patterns) try {
      choose(pattern, layers, last_block, out);
    } catch (const Error& e) {
      problems += (problems.empty() ? "" : "; ") + std::string(e.what());
    }
  if (!problems.empty()) throw Error(KINORA_ERROR_INVALID, problems);
  return out;
}

std::string text_of(const std::vector<Layer>& layers, const std::vector<bool>& chosen, int64_t last_block) {
  using Counts = std::pair<size_t, size_t>;  // chosen, all
  std::map<int64_t, Counts> blocks;
  std::map<std::string, Counts> alike;
  for (size_t i = 0; i < layers.size(); ++i)
    for (Counts* to : {&blocks[layers[i].block], &alike[any_block(layers[i].name)]})
      to->first += chosen[i], ++to->second;
  std::string names, whole;
  std::set<std::string> listed;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& [some, all] = blocks[layers[i].block];
    if (!chosen[i] || (layers[i].block > 0 && some == all)) continue;
    const std::string every = any_block(layers[i].name);
    const Counts& of = alike[every];
    const std::string& name = of.second > 1 && of.first == of.second ? every : layers[i].name;
    if (listed.insert(name).second) names += (names.empty() ? "" : ", ") + name;
  }
  for (const auto& [block, count] : blocks)
    if (block > 0 && count.first == count.second)
      whole += (whole.empty() ? "all of " : ", ") +
               (block == last_block ? "the head" : "block " + std::to_string(block - 1));
  return names + (names.empty() || whole.empty() ? "" : "; ") + whole;
}

}  // namespace kinora::quantised
