#include "apps/planner/layout.hpp"

#include <charconv>
#include <map>

#include "core/base/suggest.hpp"

namespace kinora::core::plan {
namespace {

// The sizes of a layout by their names in words() and parse_layout(), which must stay inverses of each other.
const std::map<std::string, int64_t Layout::*>& numbers() {
  static const std::map<std::string, int64_t Layout::*> all{
      {"pp", &Layout::pp},       {"dp", &Layout::dp},
      {"fsdp", &Layout::fsdp},   {"cp", &Layout::cp},
      {"tp", &Layout::tp},       {"ulysses", &Layout::ulysses},
      {"stage", &Layout::stage}, {"virtual", &Layout::virtual_stages},
      {"micro", &Layout::micro}, {"recompute", &Layout::recompute_every}};
  return all;
}

template <class T>
bool choose(std::string_view word, std::initializer_list<T> all, T& out) {
  for (const T t : all)
    if (word == name_of(t)) return out = t, true;
  return false;
}

// Every size is at least 1, except `recompute`, where 0 means that no block is computed twice.
Status set(Layout& out, const std::string& key, std::string_view value) {
  const auto it = numbers().find(key);
  if (it == numbers().end()) {
    std::vector<std::string> known{"sequence", "schedule", "conditioning"};
    for (const auto& [name, member] : numbers()) known.push_back(name);
    return fail(KINORA_ERROR_INVALID, "layout: unknown '{}'{}", key,
                did_you_mean_or_list(key, known, "there are"));
  }
  int64_t n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc() || end != value.data() + value.size() || n < (key == "recompute" ? 0 : 1))
    return fail(KINORA_ERROR_INVALID, "layout: {}={} is not a size; write for example {}=2", key, value, key);
  if (key == "stage" && n > 3)
    return fail(KINORA_ERROR_INVALID, "layout: stage={}; the stages of fsdp are 1, 2 and 3", value);
  out.*it->second = n;
  return {};
}

Status set_word(Layout& out, std::string_view word) {
  const auto equals = word.find('=');
  if (equals == word.npos)
    return fail(KINORA_ERROR_INVALID, "layout: '{}' has no '='; write for example tp=2,cp=4", word);
  const std::string key(word.substr(0, equals));
  const auto value = word.substr(equals + 1);
  if (key == "sequence") {
    if (!choose(value,
                {Sequence::ring, Sequence::ulysses, Sequence::two_d, Sequence::hybrid, Sequence::balanced},
                out.sequence))
      return fail(KINORA_ERROR_INVALID,
                  "layout: sequence={}; expected cp-ring, cp-ulysses, cp-2d, stdit-hybrid or balanced-sp",
                  value);
    return {};
  }
  if (key == "schedule") {
    if (!choose(value, {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved}, out.schedule))
      return fail(KINORA_ERROR_INVALID, "layout: schedule={}; expected gpipe, 1f1b or interleaved", value);
    return {};
  }
  if (key == "conditioning") {
    if (value != "recompute" && value != "send")
      return fail(KINORA_ERROR_INVALID, "layout: conditioning={}; expected recompute or send", value);
    out.send_conditioning = value == "send";
    return {};
  }
  return set(out, key, value);
}

}  // namespace

const char* name_of(Sequence s) {
  switch (s) {
    case Sequence::ulysses:
      return "cp-ulysses";
    case Sequence::two_d:
      return "cp-2d";
    case Sequence::hybrid:
      return "stdit-hybrid";
    case Sequence::balanced:
      return "balanced-sp";
    case Sequence::ring:
      break;
  }
  return "cp-ring";
}

const char* name_of(Schedule s) {
  return s == Schedule::gpipe ? "gpipe" : s == Schedule::interleaved ? "interleaved" : "1f1b";
}

std::string Layout::text() const {
  std::string out;
  const auto add = [&](const std::string& word) { out += (out.empty() ? "" : " ") + word; };
  if (pp > 1)
    add(fmt::format("pp={} ({}{})", pp, name_of(schedule),
                    virtual_stages > 1 ? fmt::format(" x{}", virtual_stages) : ""));
  if (dp > 1) add(fmt::format("dp={}", dp));
  if (fsdp > 1) add(fmt::format("fsdp={} (stage {})", fsdp, stage));
  if (cp > 1)
    add(fmt::format("cp={} ({}{})", cp, name_of(sequence),
                    sequence == Sequence::two_d ? fmt::format(" {}x{}", ulysses, cp / ulysses) : ""));
  if (tp > 1) add(fmt::format("tp={}", tp));
  if (recompute_every)
    add(recompute_every == 1 ? "recompute" : fmt::format("recompute 1/{}", recompute_every));
  if (micro > 1) add(fmt::format("micro={}", micro));
  return out.empty() ? "single" : out;
}

std::string Layout::words() const {
  std::string out;
  const Layout plain;
  const auto add = [&](std::string_view key, auto value) {
    out += fmt::format("{}{}={}", out.empty() ? "" : ",", key, value);
  };
  for (const char* axis : {"pp", "dp", "fsdp", "cp", "tp"})
    if (const int64_t n = this->*numbers().at(axis); n > 1) add(axis, n);
  if (fsdp > 1 && stage != plain.stage) add("stage", stage);
  if (cp > 1 && sequence != plain.sequence) add("sequence", name_of(sequence));
  if (cp > 1 && sequence == Sequence::two_d) add("ulysses", ulysses);
  if (virtual_stages > 1) add("virtual", virtual_stages);
  if (pp > 1 && schedule != (virtual_stages > 1 ? Schedule::interleaved : plain.schedule))
    add("schedule", name_of(schedule));
  if (send_conditioning) add("conditioning", "send");
  if (recompute_every) add("recompute", recompute_every);
  if (micro > 1) add("micro", micro);
  return out.empty() ? "dp=1" : out;
}

// Without `micro`: a train job takes its microbatch from batch and accumulate. ddp is written without
// a size and takes the remaining ranks.
std::string Layout::toml() const {
  std::vector<std::string> uses;
  if (pp > 1)
    uses.push_back(fmt::format(R"({{ use = "pp", size = {}, schedule = "{}"{}{} }})", pp, name_of(schedule),
                               virtual_stages > 1 ? fmt::format(", virtual = {}", virtual_stages) : "",
                               send_conditioning ? R"(, conditioning = "send")" : ""));
  if (fsdp > 1) uses.push_back(fmt::format(R"({{ use = "fsdp", size = {}, stage = {} }})", fsdp, stage));
  if (cp > 1)
    uses.push_back(fmt::format(R"({{ use = "{}", size = {}{} }})", name_of(sequence), cp,
                               sequence == Sequence::two_d ? fmt::format(", ulysses = {}", ulysses) : ""));
  if (tp > 1) uses.push_back(fmt::format(R"({{ use = "tp", size = {} }})", tp));
  if (dp > 1) uses.push_back(R"({ use = "ddp" })");
  if (recompute_every)
    uses.push_back(recompute_every == 1
                       ? R"({ use = "recompute" })"
                       : fmt::format(R"({{ use = "recompute", every = {} }})", recompute_every));
  if (uses.empty()) return R"(parallel = ["single"])";
  std::string out = "parallel = [";
  for (size_t i = 0; i < uses.size(); ++i) out += (i ? ", " : "") + uses[i];
  return out + "]";
}

Result<Layout> parse_layout(std::string_view text) {
  Layout out;
  bool schedule_given = false, virtual_given = false;
  while (!text.empty()) {
    const auto comma = text.find(',');
    auto word = text.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (!word.empty())
      if (auto status = set_word(out, word); !status) return status.failure();
    schedule_given = schedule_given || word.starts_with("schedule=");
    virtual_given = virtual_given || word.starts_with("virtual=");
    text = comma == text.npos ? std::string_view() : text.substr(comma + 1);
  }
  // Several virtual stages a rank exist in the interleaved schedule only (Megatron-LM, arXiv 2104.04473, section 2.2).
  if (out.virtual_stages > 1 && !schedule_given) out.schedule = Schedule::interleaved;
  if (out.schedule == Schedule::interleaved && !virtual_given) out.virtual_stages = 2;  // pp's default
  return out;
}

}  // namespace kinora::core::plan
