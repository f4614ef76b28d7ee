#include "plugins/jobs/windows/window_checks.hpp"

#include <fmt/format.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "host/stages/stage_check.hpp"
#include "plugins/jobs/inference/rules.hpp"
#include "plugins/jobs/latents/latents.hpp"

namespace kinora::core {

void check_transforms(JobCheck& check) {
  for (const auto* use : check.spec().list("transforms")) {
    check_stage(check, *use);
    if (!check.spec().data)
      check.problem(use->at,
                    "transforms: they change the samples of a table of data, such as input = { path = "
                    "\"shards/\" }; give one, or leave them out");
    if (use->from)
      check.problem(use->at, "transforms: each takes the samples of the one before it; leave `from` out");
  }
}

namespace {

std::string size_text(const WindowSize& size) {
  return fmt::format("{}x{}x{}", size.frames, size.height, size.width);
}

// Returns what a crop leaves of a window. Throws Error(KINORA_ERROR_INVALID) if its rectangle is larger.
WindowSize cropped(const ComponentUse& crop, const WindowSize& window) {
  const auto left = [&](const char* option, int64_t of) {
    const int64_t to = crop.options.values().value(option, int64_t{0});
    if (to > of)
      raise(KINORA_ERROR_INVALID,
            "transforms: video.crop has {} = {}, and windows of {} have {}; lower it, or raise the job's {}",
            option, to, size_text(window), of, option);
    return to > 0 ? to : of;
  };
  return {window.frames, left("height", window.height), left("width", window.width)};
}

}  // namespace

void check_crops(JobCheck& check, const kinora_tokenizer_info& info, const std::string& tokenizer,
                 const std::vector<WindowSize>& sizes) {
  for (WindowSize window : sizes)
    for (const auto* use : check.spec().list("transforms")) {
      if (use->id != "stage/video.crop") continue;
      try {
        const WindowSize left = cropped(*use, window);
        if (sizes.size() > 1 && left != window)
          raise(KINORA_ERROR_INVALID,
                "transforms: video.crop leaves {} of windows of {}, and with `sizes` each window keeps its "
                "size; "
                "leave video.crop or sizes out",
                size_text(left), size_text(window));
        latent_rows(info, tokenizer, left.height);
        latent_columns(info, tokenizer, left.width);
        window = left;
      } catch (const Error& e) {
        return check.problem(use->at, e.what());
      }
    }
}

}  // namespace kinora::core
