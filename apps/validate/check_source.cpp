// Checks of sources, on the data of --input.
#include <algorithm>

#include "apps/validate/trial_call.hpp"
#include "core/runtime/call.hpp"
#include "kinora/abi/source.h"
#include "kinora/sample.hpp"

namespace kinora {
namespace source_checks_of {
namespace {

constexpr size_t kMost = 10000;  // samples of the data
constexpr uint64_t kParts = 3;
constexpr const char* kDamaged = "damaged: ";

class Source {
 public:
  explicit Source(const PluginTrial& t, uint64_t shard = 0, uint64_t shards = 1)
      : t_(t), options_(t.options()), made_(t, options_) {
    if (t.subject.input.empty()) throw Skipped{"say which data it reads: --input PATH"};
    if (const auto why =
            answer(fmt::format("open() of part {} of {}", shard, shards),
                   [&] { return made_.api.open(made_.self, str(t.subject.input), shard, shards, &run_); });
        !why.empty())
      throw Skipped{"open(" + t.subject.input + "): " + why};
  }

  // The key of the next sample with its fields, or the error of a damaged one; "" after the last.
  std::string next() const {
    return given("next()", [&](kinora_sample** out) { return made_.api.next(made_.self, &run_, out); });
  }
  bool has_at() const { return KINORA_HAS(&made_.api, at) && made_.api.at; }
  // The same of sample i, if it has_at().
  std::string at(uint64_t i) const {
    return given(fmt::format("at({})", i),
                 [&](kinora_sample** out) { return made_.api.at(made_.self, i, &run_, out); });
  }
  std::vector<std::string> rest() const {
    std::vector<std::string> out;
    for (std::string one; !(one = next()).empty(); out.push_back(one))
      if (out.size() == kMost)
        throw Skipped{fmt::format("--input has more than {} samples; give a part of it", kMost)};
    return out;
  }
  std::string state() const {
    std::string out;
    const kinora_sink sink{&out, [](void* to, const void* data, uint64_t size) {
                             static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
                           }};
    require_ok([&] { return made_.api.state(made_.self, &sink); }, "state()");
    if (out.size() > KINORA_SOURCE_MOST_STATE)
      throw Error(KINORA_ERROR_FAILED, fmt::format("state() wrote {} bytes; at most {} are allowed",
                                                   out.size(), KINORA_SOURCE_MOST_STATE));
    return out;
  }
  int32_t restore(const std::string& state) const {
    return made_.api.restore(made_.self, {state.data(), state.size()});
  }
  // Makes a call and returns what it gives as text, as next() does.
  template <class Call>
  static std::string given(const std::string& what, const Call& call) {
    kinora_sample* out = nullptr;
    int32_t status = KINORA_SIGNAL_END;
    const auto why = answer(what, [&] {
      status = call(&out);
      return status == KINORA_SIGNAL_END ? KINORA_OK : status;
    });
    if (status == KINORA_SIGNAL_END) return "";
    if (status == KINORA_ERROR_DATA) return kDamaged + why;
    if (status != KINORA_OK) throw Error(status, what + ": " + why);
    const Sample sample = Sample::adopt(out);
    std::string text(sample.key());
    for (const auto& [name, bytes] : sample.fields())
      text += fmt::format(
          "\n{} {} {:x}", name, bytes.size(),
          std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    return text;
  }
  // Nothing if it is not known.
  std::optional<uint64_t> count() const {
    uint64_t out = 0;
    if (!KINORA_HAS(&made_.api, count) || !made_.api.count) return {};
    t_.now("count()");
    const int32_t status = made_.api.count(made_.self, &out);
    if (status == KINORA_ERROR_UNSUPPORTED) return {};
    require_ok(status, "count()");
    return out;
  }

 private:
  const PluginTrial& t_;
  core::Options options_;
  core::Call call_;
  const kinora_run run_ = core::run_of(call_);
  TrialInstance<kinora_source> made_;
};

bool is_damaged(const std::string& sample) { return sample.starts_with(kDamaged); }

std::string key_of(const std::string& sample) { return sample.substr(0, sample.find('\n')); }

std::string check_unknown_needs(PluginTrial& t) {
  if (t.subject.input.empty()) throw Skipped{"say which data it reads: --input PATH"};
  const core::Options options = t.options();
  const TrialInstance<kinora_source> made(t, options);
  core::Call call;
  kinora_run run = core::run_of(call);
  run.needs = kUnknownNeed;
  require_refused([&] { return made.api.open(made.self, str(t.subject.input), 0, 1, &run); },
                  "open() of a run with an unknown bit of `needs`");
  return "";
}

std::string check_open_again(PluginTrial& t) {
  const std::string first = Source(t).next();
  const core::Options options = t.options();
  const TrialInstance<kinora_source> made(t, options);
  core::Call call;
  const kinora_run run = core::run_of(call);
  const auto open = [&](uint64_t shard) {
    return made.api.open(made.self, str(t.subject.input), shard, 1, &run);
  };
  int32_t status = KINORA_OK;
  answer("open() of part 1 of 1", [&] { return status = open(1); });
  if (status != KINORA_ERROR_INVALID)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("open() of part 1 of 1 returned {}; return KINORA_ERROR_INVALID ({}), since parts "
                    "count from 0",
                    status, KINORA_ERROR_INVALID));
  require_ok([&] { return open(0); }, "open() after one that failed");
  const auto next =
      Source::given("next()", [&](kinora_sample** out) { return made.api.next(made.self, &run, out); });
  if (next != first)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("next() gives '{}' after two calls of open(), the first of which failed, and '{}' "
                    "after one; a failed open() leaves nothing behind",
                    key_of(next), key_of(first)));
  return "";
}

std::string check_parts(PluginTrial& t) {
  const Source source(t);
  auto all = source.rest();
  if (std::all_of(all.begin(), all.end(), is_damaged))
    throw Skipped{all.empty() ? "--input has no sample"
                              : "--input has no sample that can be read: " + all[0]};
  if (const auto after = source.next(); !after.empty())
    throw Error(KINORA_ERROR_FAILED,
                fmt::format("next() gives '{}' after it returned KINORA_SIGNAL_END; the end stays until "
                            "restore()",
                            key_of(after)));
  if (Source(t).rest() != all)
    throw Error(KINORA_ERROR_FAILED,
                "two instances give the samples of --input in another order or with other bytes");
  std::vector<std::string> joined;
  for (uint64_t i = 0; i < kParts; ++i) {
    const Source part(t, i, kParts);
    const auto known = part.count();
    const auto some = part.rest();
    if (known && *known != some.size())
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("count() of part {} of {} is {}, and next() gave {} samples", i, kParts, *known,
                              some.size()));
    joined.insert(joined.end(), some.begin(), some.end());
  }
  std::sort(all.begin(), all.end());
  std::sort(joined.begin(), joined.end());
  const auto [a, b] = std::mismatch(all.begin(), all.end(), joined.begin(), joined.end());
  if (a == all.end() && b == joined.end()) return fmt::format("{} samples", all.size());
  const bool is_lost = b == joined.end() || (a != all.end() && *a < *b);
  throw Error(
      KINORA_ERROR_FAILED,
      fmt::format(
          "sample '{}' of --input is {} the parts 0 to {} of {}; together they have every sample once",
          key_of(is_lost ? *a : *b), is_lost ? "lost: it is in none of" : "too often in", kParts - 1,
          kParts));
}

std::string check_restore(PluginTrial& t) {
  const Source source(t);
  std::vector<std::string> states{source.state()}, all;
  for (std::string one; states.size() <= 64 && !(one = source.next()).empty();
       states.push_back(source.state()))
    all.push_back(one);
  const size_t seen = all.size();
  if (states.size() > 64)
    for (const auto& one : source.rest()) all.push_back(one);
  for (size_t i = 0; i <= seen; ++i) {
    const Source other(t);
    other.next();  // restore() does not need a new instance
    require_ok([&] { return other.restore(states[i]); },
               fmt::format("restore() of the state after {} samples", i));
    const auto rest = other.rest();
    if (!std::equal(rest.begin(), rest.end(), all.begin() + static_cast<ptrdiff_t>(i), all.end()))
      throw Error(KINORA_ERROR_FAILED, fmt::format("after restore() of the state after {} samples, next() "
                                                   "gives '{}' and {} samples in all; '{}' and {} are "
                                                   "the rest of the data",
                                                   i, rest.empty() ? "" : key_of(rest[0]), rest.size(),
                                                   i < all.size() ? key_of(all[i]) : "", all.size() - i));
  }
  return fmt::format("at {} positions", seen + 1);
}

std::string check_foreign_states(PluginTrial& t) {
  const Source one(t), part(t, 1, kParts);
  one.next();
  const std::string own = one.state(), expected = Source(t).rest().size() > 1 ? one.next() : "";
  for (const auto& [what, state] : {std::pair<std::string, std::string>{"of another part", part.state()},
                                    {"of no bytes", ""},
                                    {"of 1,000 bytes 0xFF", std::string(1000, '\xFF')},
                                    {"without its last byte", own.substr(0, own.size() - 1)}}) {
    const Source source(t);
    source.next();
    int32_t status = KINORA_OK;
    answer("restore() of a state " + what, [&] { return status = source.restore(state); });
    if (status == KINORA_OK && what == "without its last byte")
      continue;  // also a state, of another position
    if (status != KINORA_ERROR_INVALID)
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("restore() of a state {} returned {}; return KINORA_ERROR_INVALID ({})", what,
                              status, KINORA_ERROR_INVALID));
    if (const auto next = source.next(); next != expected)
      throw Error(KINORA_ERROR_FAILED, fmt::format("after restore() has refused a state {}, next() gives "
                                                   "'{}', and '{}' without that call; the position stays",
                                                   what, key_of(next), key_of(expected)));
  }
  return "";
}

std::string check_at(PluginTrial& t) {
  const Source part(t, 1, kParts);
  if (!part.has_at()) throw Skipped{"the source has no at(), so nothing is trained from it"};
  if (!part.count()) throw Skipped{"count() is not known for --input, so nothing is trained from it"};
  const auto rest = Source(t, 1, kParts).rest();
  for (size_t i = rest.size(); i-- > 0;) {  // backwards, so that at() cannot be next()
    const auto text = [](const std::string& given) { return is_damaged(given) ? kDamaged : given; };
    if (const auto one = part.at(i); text(one) != text(rest[i]))
      throw Error(KINORA_ERROR_FAILED, fmt::format("at({}) of part 1 of {} gives '{}', and next() '{}'", i,
                                                   kParts, key_of(one), key_of(rest[i])));
  }
  if (const auto first = part.next(); !rest.empty() && first != rest[0])
    throw Error(KINORA_ERROR_FAILED, fmt::format("after at(), next() gives '{}' and not '{}'; the position "
                                                 "stays",
                                                 key_of(first), key_of(rest[0])));
  return fmt::format("{} samples", rest.size());
}

constexpr Check kChecks[] = {
    {"source-needs", "source", "it refuses a run that needs what it does not know", false, nullptr,
     check_unknown_needs},
    {"open-again", "source", "open() refuses a part that there is not, and works after that", false, nullptr,
     check_open_again},
    {"parts", "source",
     "the parts 0 to 2 of 3 have every sample once, as many as count() says, and then they end", false,
     nullptr, check_parts},
    {"at", "source", "at() gives any sample as next() does, and leaves the position", false, nullptr,
     check_at},
    {"restore", "source", "restore() of the state at any sample continues with the same rest", false, nullptr,
     check_restore},
    {"foreign-states", "source",
     "a state of another part, and bytes that are none, are refused and change nothing", false, nullptr,
     check_foreign_states}};

}  // namespace
}  // namespace source_checks_of

std::span<const Check> source_checks() { return source_checks_of::kChecks; }

}  // namespace kinora
