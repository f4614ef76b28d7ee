#include "plugins/jobs/media/stills.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/log.hpp"
#include "plugins/jobs/media/strip.hpp"

namespace kinora::core {
namespace {

// A copy on the CPU, made smaller until its longer side has at most so many pixels.
at::Tensor shrunk(const at::Tensor& frame, int64_t longest) {
  const at::Tensor all = frame.cpu();
  const int64_t longer = std::max(all.size(1), all.size(2));
  if (longer <= longest) return all.clone();  // a view would keep the chunk
  const auto side = [&](int64_t pixels) {
    return std::max<int64_t>(
        std::llround(static_cast<double>(pixels * longest) / static_cast<double>(longer)), 1);
  };
  const std::vector<int64_t> size{side(all.size(1)), side(all.size(2))};
  return at::_upsample_bilinear2d_aa(all.permute({0, 3, 1, 2}).to(at::kFloat), size, false)
      .round()
      .clamp(0, 255)
      .to(at::kByte)
      .permute({0, 2, 3, 1})
      .contiguous();
}

}  // namespace

Stills::Stills(JobContext& context, std::filesystem::path folder, int64_t frames)
    : context_(context), folder_(std::move(folder)) {
  const at::Tensor numbers = strip_numbers(frames, kSheetFrames);
  wanted_.assign(numbers.data_ptr<int64_t>(), numbers.data_ptr<int64_t>() + numbers.numel());
}

void Stills::add(const at::Tensor& frames) {
  const at::NoGradGuard off;
  unless_failed([&] {
    if (done_ == 0) {
      first_ = frames.narrow(0, 0, 1).cpu().clone();
      write_row(context_, shrunk(first_, kThumbnail), {{"format", "webp"}}, folder_ / "thumbnail.webp");
    }
    for (const int64_t number : wanted_)
      if (number >= done_ && number < done_ + frames.size(0))
        sheet_.push_back(shrunk(frames.narrow(0, number - done_, 1), kSheet));
    done_ += frames.size(0);
  });
}

void Stills::finish() {
  unless_failed([&] {
    if (done_ == 1) write_strip(context_, first_, 1, folder_ / "picture.png");
    write_row(context_, at::cat(sheet_), {{"format", "jpeg"}}, folder_ / "spritesheet.jpg");
  });
}

void Stills::unless_failed(const std::function<void()>& work) {
  if (has_failed_) return;
  try {
    work();
  } catch (const Error& e) {
    has_failed_ = true;
    log_warn("pictures of a video: {}; it is made without them", e.what());
  }
}

}  // namespace kinora::core
