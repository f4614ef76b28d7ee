#include "plugins/jobs/encode/live_encode.hpp"

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/io/atomic_file.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/device.hpp"
#include "plugins/jobs/encode/latent_statistics.hpp"
#include "plugins/jobs/encode/other_rates.hpp"
#include "plugins/jobs/windows/encoded_windows.hpp"
#include "plugins/jobs/windows/no_text.hpp"

namespace kinora::core {

void encode_live(JobContext& context, const EncodeOptions& options) {
  if (Parallelism(context).rank() > 0) return;
  EncodedWindows windows(context, device_of(options.device));
  LatentStatistics statistics;
  OtherRates rates;
  LatentFacts facts;
  facts.shape = windows.latent_shape();  // transforms may change the height and width of windows of one size
  std::map<std::string, int64_t> of_size;
  const auto pass = static_cast<int64_t>(windows.order().pass()),
             count = std::min(options.scale_windows, pass);
  windows.follow({.first = 0, .count = 1, .of = 1, .end = static_cast<uint64_t>(count)});
  log_info(
      "{}: training encodes each window when it takes it, so no latents.h5 is written; measures the scale of "
      "{}",
      context.spec().name, counted(count, "window", "windows"));
  Progress progress(context.spec().name, count, "windows");
  for (int64_t n = 0; n < count; ++n) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    const auto window = windows.at(static_cast<uint64_t>(n), [](const std::string&) { return true; });
    const auto latent = window.tensors.find("latent");
    const auto& made = latent == window.tensors.end() ? window.tensors.at("codes") : latent->second;
    if (options.sizes.empty()) facts.shape = made.sizes().vec();
    const auto& size = window.size;
    ++of_size[fmt::format("{}x{}x{}", size.frames, size.height, size.width)];
    rates.add(windows.fps());
    facts.text_size = window.tensors.at("text").size(1);
    if (latent != window.tensors.end()) statistics.add(latent->second);
    progress.update(n + 1);
  }
  facts.scale = statistics.scale(options);
  facts.fps = count > 0 ? rates.taken() : windows.fps();
  rates.log(context.spec().name, options.signals);
  json out = facts.to_json();
  out["data"] = windows.order().digest();
  or_throw(write_file_atomically(context.folder() / "latents.json", out.dump(2) + "\n"));
  if (options.encode_empty) write_no_text(context, windows.text(""));
  windows.lost().log();
  context.summary.update(windows.lost().counts());
  context.summary.update({{"samples", pass},
                          {"sets", windows.order().sets()},
                          {"measured", count},
                          {"latent_shape", facts.shape},
                          {"sizes", of_size}});
}

}  // namespace kinora::core
