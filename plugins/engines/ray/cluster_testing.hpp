// Pipelines of tests on a cluster whose bridges are fake (bridge_testing.hpp).
#pragma once
#include "plugins/engines/ray/bridge_testing.hpp"

extern "C" const kinora_host* kinora_core_host();

namespace kinora::ray {

// The samples of engines/local's tests are the test's own; those that cross a wire are the host's.
inline void use_core() { g_host = kinora_core_host(); }

// A pipeline on a cluster of so many nodes.
struct OnCluster : local::Pipeline {
  std::vector<double> cores{2, 2};
  Chaos chaos{};
  Limits limits{};
  engines::Settings settings{};
  std::atomic<int> bridges{0};  // that were started
  Stores stores{};              // of the last one, after the run

  OnCluster() {
    host = use_core;
    settings.backoff = 0.0001;
    settings.death_retries = 1;
    settings.remakes = true;
    engine = [this](const kinora_pipeline& pipeline, const kinora::Run& run) {
      struct Started : std::deque<FakeBridge> {
        explicit Started(OnCluster& all) : of(all) {}
        ~Started() {
          for (FakeBridge& bridge : *this) {
            bridge.wait();
            of.stores = bridge.stores();
          }
        }
        OnCluster& of;
      } started(*this);
      const auto connect = [&] {
        FakeBridge& bridge = started.emplace_back(stages, cores, chaos, bridges++);
        return Bridge{nullptr, std::make_shared<Wire>(bridge.socket())};
      };
      Cluster cluster(connect, run, limits, {{"store", store}});
      settings.nodes = cluster.nodes();
      run_on(cluster, pipeline, run, settings);
    };
  }
};

// Dies at most once of each key and event.
inline auto once(std::function<bool(const std::string&, const std::string&, int)> dies) {
  return [dies = std::move(dies), dead = std::set<std::string>{}](const std::string& stage,
                                                                  const std::string& key, int event) mutable {
    return dies(stage, key, event) && dead.insert(stage + " " + key).second;
  };
}

}  // namespace kinora::ray
