#include "plugins/jobs/loading/stage_chain.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/plugin/host.hpp"

namespace kinora::core {
namespace {

// {"use": "clip.transcode", "height": 240}: the stage's id and its options, checked.
std::pair<std::string, Options> stage_of(Registry& registry, const json& given) {
  json options = given.is_string() ? json{{"use", given}} : given;
  if (!options.is_object() || !options.contains("use") || !options["use"].is_string())
    throw Error(KINORA_ERROR_INVALID,
                "stages: " + found_text(given) + "; expected a name, or an object with \"use\" and options");
  const auto* spec = or_throw(registry.find("stage", options["use"].get<std::string>()));
  options.erase("use");
  return {spec->id, or_throw(Options::make(*spec, options))};
}

bool ends_all(int32_t code) { return code == KINORA_ERROR_REFUSED || code == KINORA_ERROR_CANCELLED; }

}  // namespace

StageChain::StageChain(Registry& registry, const json& stages, const kinora_emit& to, const kinora_run& run,
                       const Isolation& isolation)
    : to_(to), run_(run) {
  if (!stages.is_array() || stages.empty())
    throw Error(KINORA_ERROR_INVALID,
                "stages: expected a list of at least one stage, got " + found_text(stages));
  for (const auto& given : stages) {
    const auto [id, options] = stage_of(registry, given);
    links_.push_back({std::make_unique<StageInstance>(registry, id, options, isolation)});
  }
}

void StageChain::process(size_t link, Sample sample) {
  if (link == links_.size()) return check(to_.emit(to_.self, sample.release()));
  auto& [stage, results] = links_[link];
  const std::string key(sample.key());
  results.input = key;
  const kinora_emit sink = results.sink();
  std::string why;
  try {
    stage->process(sample.get(), sink, run_);
  } catch (const Error& e) {
    if (ends_all(e.code())) {  // nothing of this call reaches the next one
      results.held.erase(key);
      results = {.held = std::move(results.held)};
      throw;
    }
    why = e.what();
  }
  results.input.clear();
  if (!why.empty()) {
    // Its outcome stays what the stage had reported before the error.
    const auto has_key = [&](const auto& all) {
      return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.key == key; });
    };
    const bool is_emitted = std::any_of(results.emitted.begin(), results.emitted.end(),
                                        [&](const Sample& s) { return s.key() == key; });
    results.held.erase(key);
    if (is_emitted || has_key(results.dropped) || has_key(results.failed))
      log_warn("{}: {}", key, why);
    else
      results.failed.push_back({key, why});
  }
  forward(link);
}

void StageChain::forward(size_t link) {
  auto& results = links_[link].results;
  const auto emitted = std::exchange(results.emitted, {});
  const auto dropped = std::exchange(results.dropped, {});
  const auto failed = std::exchange(results.failed, {});
  for (const auto& d : dropped)
    check(to_.drop(to_.self, Sample(d.sample).release(),
                   (d.rule.empty() ? links_[link].stage->id() : d.rule).c_str(), d.score));
  for (const auto& f : failed) check(to_.fail(to_.self, Sample(f.key).release(), f.reason.c_str()));
  for (const auto& sample : emitted) process(link + 1, sample);
}

bool StageChain::can_continue() const {
  return std::all_of(links_.begin(), links_.end(), [](const Link& link) {
    return link.results.held.empty() && link.stage->keeps_nothing();
  });
}

void StageChain::finish() {
  for (size_t link = 0; link < links_.size(); ++link) {
    auto& [stage, results] = links_[link];
    try {
      stage->finish(results.sink(), run_);
    } catch (const Error& e) {
      if (ends_all(e.code()) || results.held.empty()) throw;
      for (const auto& key : std::exchange(results.held, {})) results.failed.push_back({key, e.what()});
    }
    results.end_held();
    forward(link);
  }
}

}  // namespace kinora::core
