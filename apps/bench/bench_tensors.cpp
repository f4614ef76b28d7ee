// kinora bench train, sample, vae, block and parallel: the benchmarks that hold tensors, with their bounds.
#include <filesystem>

#include "apps/bench/bench.hpp"
#include "apps/bench/tensors.hpp"
#include "core/base/paths.hpp"
#include "core/runtime/place.hpp"
#include "core/runtime/runtime.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora {
namespace {

using nlohmann::json;

// The bound is checked only with a peer: at most 0.8 of each peer's time, less time than torch.compile,
// and no more memory.
json networks(core::Runtime& runtime, const BenchOptions& o, const char* what) {
  json out = core::with_plain_errors([&] { return core::bench_networks(runtime, what, o); });
  if (o.peer.empty()) {
    out["peer"] = "none; give one with --peer CMD";
    return out;
  }
  bool within = true;
  for (const auto& part : out)
    if (part.is_object())
      for (const auto& [name, value] : part.items())
        if (name.starts_with("of_") && name != "of_product")
          within = within && value.get<double>() <= (name == "of_compiled" ? 1.0 : 0.8);
  if (out.contains("peer_peak_rss")) within = within && out["peak_rss"] < out["peer_peak_rss"];
  out["within"] = within;
  return out;
}

// Returns what bench parallel measures on the given number of launched ranks.
json launched(int ranks, const BenchOptions& o) {
  std::string logs = (std::filesystem::temp_directory_path() / "kinora-bench-XXXXXX").string();
  if (!mkdtemp(logs.data()))
    throw Error(KINORA_ERROR_IO,
                logs + ": cannot create a temporary folder; set TMPDIR to a writable folder");
  const std::string out = output_of(shell_quoted((core::executable_folder() / "kinora").string()) +
                                    " launch -n " + std::to_string(ranks) + " --logs " + shell_quoted(logs) +
                                    " -- bench parallel --json --threads " + std::to_string(o.threads) +
                                    " --repeat " + std::to_string(o.repeat) + (o.quick ? " --quick" : ""));
  std::error_code ignored;
  std::filesystem::remove_all(logs, ignored);
  const json line = json::parse(out, nullptr, false);
  if (!line.is_object())
    throw Error(KINORA_ERROR_FAILED,
                "bench parallel: " + std::to_string(ranks) +
                    " ranks printed no result; see kinora launch -n 2 --logs DIR -- bench parallel --json");
  if (line.contains("error")) throw Error(KINORA_ERROR_FAILED, line["error"].get<std::string>());
  return line;
}

}  // namespace

json bench_train(core::Runtime& r, const BenchOptions& o) { return networks(r, o, "train"); }
json bench_sample(core::Runtime& r, const BenchOptions& o) { return networks(r, o, "sample"); }
json bench_vae(core::Runtime& r, const BenchOptions& o) { return networks(r, o, "vae"); }
json bench_block(core::Runtime& runtime, const BenchOptions& o) {
  return core::with_plain_errors([&] { return core::bench_block(runtime, o); });
}

json bench_parallel(core::Runtime& runtime, const BenchOptions& o) {
  json out = core::with_plain_errors([&] { return core::bench_parallel(runtime, o); });
  if (!core::here().alone()) return out;  // one of several ranks
  for (const int ranks : {2, 4}) {
    json line = launched(ranks, o);
    line.erase("benchmark");
    out["on_" + std::to_string(ranks)] = std::move(line);
  }
  out["within"] = out["overhead"]["within"].get<bool>() && out["on_2"]["attention"]["within"].get<bool>();
  return out;
}

}  // namespace kinora
