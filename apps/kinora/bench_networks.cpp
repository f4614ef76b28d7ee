#include "apps/kinora/bench.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora {
namespace {

using nlohmann::json;

// The bound is checked only with a peer: at most 0.8 of each peer's time, less time than torch.compile,
// and no more memory.
json networks(core::Runtime& runtime, const BenchOptions& o, const char* what) {
  json out = core::tool_of("kinora_bench", "bench")(
      runtime, {{"what", what}, {"threads", o.threads}, {"repeat", o.repeat}, {"peer", o.peer}, {"quick", o.quick}});
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

}  // namespace

json bench_train(core::Runtime& r, const BenchOptions& o) { return networks(r, o, "train"); }
json bench_sample(core::Runtime& r, const BenchOptions& o) { return networks(r, o, "sample"); }
json bench_vae(core::Runtime& r, const BenchOptions& o) { return networks(r, o, "vae"); }
json bench_block(core::Runtime& r, const BenchOptions& o) {
  return core::tool_of("kinora_bench", "bench_block")(
      r, {{"tokens", o.tokens}, {"device", o.device}, {"threads", o.threads}, {"repeat", o.repeat}});
}

}  // namespace kinora
