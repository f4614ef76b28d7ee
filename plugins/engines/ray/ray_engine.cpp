#include "plugins/engines/ray/ray_engine.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "kinora/plugin.hpp"
#include "plugins/engines/ray/cluster.hpp"
#include "plugins/engines/ray/interpreter.hpp"

namespace kinora::ray {
namespace {

bool is_number(std::string_view text, int most) {
  int out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out > 0 && out <= most;
}

void check_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  const bool is_local = address.starts_with("local:") && is_number(std::string_view(address).substr(6), 64);
  const bool is_port = colon != std::string::npos && colon > 0 && address.find('/') == std::string::npos &&
                       is_number(std::string_view(address).substr(colon + 1), 65535);
  if (address == "auto" || is_local || (is_port && !address.starts_with("local:"))) return;
  throw Error(
      KINORA_ERROR_INVALID,
      "engine/ray: address = \"" + address +
          "\": expected auto, HOST:PORT of a cluster's head without ray:// or http://, or local:N for N "
          "nodes of this machine alone, at most 64");
}

void check_label(const std::string& label) {
  const size_t equals = label.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == label.size())
    throw Error(KINORA_ERROR_INVALID,
                "engine/ray: where has '" + label + "'; expected labels of nodes, LABEL=VALUE");
}

}  // namespace

void RayEngine::describe(Describe<Options>& d) {
  d.name("ray").help("Runs the stages on the nodes of a Ray cluster, where the bytes of samples stay");
  d.option("address", &Options::address)
      .help(
          "the cluster: auto (RAY_ADDRESS, or one that runs on this machine), HOST:PORT, or local:N, N nodes "
          "on this machine "
          "that start and end with the job");
  d.option("python", &Options::python)
      .help("Python with the packages ray and kinora-ray; empty: that of VIRTUAL_ENV, else python3");
  d.option("where", &Options::where).help("only nodes with all these labels, each LABEL=VALUE");
  d.option("insecure", &Options::insecure)
      .help(
          "use a cluster of other machines without a token (RAY_AUTH_MODE=token): whoever reaches its ports "
          "runs code");
  d.option("store", &Options::store)
      .choices({"shared", "driver"})
      .help(
          "who writes what is kept: shared, its node, if it has the job's folder; driver, this machine, to "
          "which all of it comes");
  d.option("cluster_wait", &Options::cluster_wait)
      .at_least(0)
      .unit("s")
      .help("longest wait for a node while there is none, at first and after a loss; then the run ends");
  d.option("node_losses", &Options::node_losses)
      .range(0, 1000)
      .help("further attempts at a sample whose node was lost; they do not count as item_retries");
  engines::describe_common(d);
}

RayEngine::RayEngine(const Options& options) : options_(options) {
  check_address(options_.address);
  std::for_each(options_.where.begin(), options_.where.end(), check_label);
  check_interpreter(interpreter_of(options_.python), KINORA_PLUGIN_VERSION);
}

void RayEngine::run(const kinora_pipeline& pipeline, const Run& run) {
  const Limits limits{options_.item_timeout, options_.item_limit, options_.cluster_wait};
  const auto connect = [this] {
    const auto process = std::make_shared<BridgeProcess>(interpreter_of(options_.python));
    return Bridge{process, std::make_shared<Wire>(process->socket())};
  };
  const bool is_shared =
      options_.store == "shared" && KINORA_HAS(&pipeline, store) && pipeline.store != nullptr;
  Cluster cluster(connect, run, limits,
                  {{"address", options_.address},
                   {"where", options_.where},
                   {"insecure", options_.insecure},
                   {"memory", pipeline.memory},
                   {"store", is_shared ? pipeline.store : ""},
                   {"log", run.out().empty() ? "" : std::string(run.out()) + "/ray.log"}});
  engines::Settings settings = options_.settings();
  settings.nodes = cluster.nodes();
  settings.node_losses = options_.node_losses;
  settings.remakes = true;
  run_on(cluster, pipeline, run, settings);
}

KINORA_COMPONENT(RayEngine)
KINORA_PLUGIN(RayEngine)

}  // namespace kinora::ray
