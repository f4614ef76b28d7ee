// stage/filter.facts: bounds on any number in a sample's facts.
#include <charconv>
#include <cmath>
#include <optional>

#include "filter.hpp"
#include "kinora/plugin.hpp"

namespace kinora::filters {
namespace {

using nlohmann::json;

// Returns the fact called `name`, or null. Dots lead into objects, and names may contain dots themselves:
// "scores.filter.blur".
const json* find(const json& facts, const std::string& name) {
  if (!facts.is_object()) return nullptr;
  if (const auto at = facts.find(name); at != facts.end()) return &*at;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
    if (const auto inside = facts.find(name.substr(0, dot)); inside != facts.end())
      if (const json* found = find(*inside, name.substr(dot + 1))) return found;
  return nullptr;
}

// Returns a number, or the value of a text that is a number, since every value of a CSV is text.
std::optional<double> number_of(const json* fact) {
  if (fact && fact->is_number()) return fact->get<double>();
  if (!fact || !fact->is_string()) return std::nullopt;
  const auto text = fact->get<std::string>();
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  if (first == std::string::npos) return std::nullopt;
  double value = 0;
  const char* end = text.data() + last + 1;
  const auto read = std::from_chars(text.data() + first, end, value);
  const bool whole = read.ec == std::errc() && read.ptr == end && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

// Appends names of facts that number_of() accepts, in the form of option `fact`: "height",
// "scores.filter.blur", "user.rating"; only the first ones if there are many.
void add_numbers(const json& facts, const std::string& before, int depth, std::vector<std::string>& out) {
  constexpr size_t kMost = 32;
  constexpr int kDeepest = 4;
  for (const auto& [name, value] : facts.items()) {
    if (out.size() == kMost) return;
    if (value.is_object() && depth < kDeepest) add_numbers(value, before + name + ".", depth + 1, out);
    if (number_of(&value)) out.push_back(before + name);
  }
}

std::string numbers_of(const json& facts) {
  std::vector<std::string> names;
  add_numbers(facts, "", 1, names);
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
  return out.empty() ? "none" : out;
}

// Says why there is no number, and what to do.
std::string why_no_number(const json& facts, const std::string& name) {
  const json* fact = find(facts, name);
  if (!fact || fact->is_null())
    return "has no number '" + name + "' in its facts (its numbers are " + numbers_of(facts) +
           "); put the stage that sets it before this one, such as video.probe, or set missing = \"keep\"";
  constexpr size_t kShown = 60;
  std::string found = json_text(*fact);
  if (found.size() > kShown) found = found.substr(0, kShown) + "...";
  return "has no number '" + name + "': that fact is " + found +
         "; write a number with a point and no unit, such as 7.5, or set missing = \"keep\"";
}

}  // namespace

class FilterFacts final : public Stage {
 public:
  struct Options : ModeOption {
    std::string fact = "duration_s", missing = "fail";
    double at_least = -1e300, at_most = 1e300;  // finite, so that JSON can hold them
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.facts").help("Drops samples by a number in the facts; the rule is filter.facts.FACT");
    describe_mode(d);
    d.option("fact", &Options::fact)
        .required()
        .help(
            "name of the fact, such as height, fps or duration_s; dots lead into objects: "
            "scores.filter.blur, user.rating; a text that is a number counts as one");
    d.option("at_least", &Options::at_least).bound().help("smallest value that passes; default: no limit");
    d.option("at_most", &Options::at_most).bound().help("largest value that passes; default: no limit");
    d.option("missing", &Options::missing)
        .choices({"fail", "keep"})
        .help("treatment of a sample without this number");
  }
  explicit FilterFacts(const Options& o) : options_(o), rule_("filter.facts." + o.fact) {
    if (!(o.at_least <= o.at_most))
      throw Error(KINORA_ERROR_INVALID, "filter.facts of " + o.fact + ": at_least " +
                                            std::to_string(o.at_least) + " is above at_most " +
                                            std::to_string(o.at_most) +
                                            ", so nothing would be kept; swap or change them");
  }

  void process(Sample in, const Emit& emit, const Run&) override {
    const json facts = json_field(in, "json");
    if (const auto number = number_of(find(facts, options_.fact)))
      return judge(std::move(in), emit, rule_, *number, options_.at_least, options_.at_most, options_.mode);
    if (options_.missing == "keep") return emit(std::move(in));
    throw Error(KINORA_ERROR_DATA,
                "sample '" + std::string(in.key()) + "' " + why_no_number(facts, options_.fact));
  }

 private:
  Options options_;
  std::string rule_;
};

}  // namespace kinora::filters

using kinora::filters::FilterFacts;
KINORA_COMPONENT(FilterFacts)
