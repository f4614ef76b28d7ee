// Scores of the built plugins for tests.
#pragma once
#include <memory>
#include <string>

#include "core/torch/context/score_instance.hpp"
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

}  // namespace kinora::test
