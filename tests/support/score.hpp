// Scores of the built plugins for tests.
#pragma once
#include <memory>
#include <string>

#include "core/runtime/call.hpp"
#include "core/torch/network/score_instance.hpp"
#include "kinora/aten.hpp"
#include "tests/support/plugins.hpp"

namespace kinora::test {

// A new instance. Throws kinora::Error where a run would fail.
inline std::unique_ptr<core::ScoreInstance> score(const std::string& id,
                                                  const core::json& options = core::json::object()) {
  const auto component = core::or_throw(plugins().open("score", id));
  return std::make_unique<core::ScoreInstance>(component,
                                               core::or_throw(core::Options::make(*component.spec, options)));
}

// The only number of a score that has seen these samples.
inline double scored(const std::string& id, const core::NamedTensors& in) {
  const auto instance = score(id);
  instance->update(in);
  return instance->compute().at(0).second;
}

// The number of each sample alone.
inline std::vector<double> each(const std::string& id, const core::NamedTensors& in) {
  const Instance<kinora_score> score("score/" + id);
  std::vector<kinora_named> named;
  for (const auto& [name, x] : in) named.push_back({name.c_str(), handle(x)});
  std::vector<double> out(static_cast<size_t>(in.begin()->second.size(0)));
  core::Call call;
  const kinora_run run = core::run_of(call);
  const int32_t status = score->each(score.self(), &run, named.data(), named.size(), out.data(), out.size());
  if (status != KINORA_OK) throw Error(status, last_error());
  return out;
}

}  // namespace kinora::test
