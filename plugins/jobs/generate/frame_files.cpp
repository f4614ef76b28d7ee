#include "plugins/jobs/generate/frame_files.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>

#include <ATen/ATen.h>

#include "core/base/cancel.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

void append_frames(const std::filesystem::path& file, const at::Tensor& frames) {
  const at::Tensor all = frames.cpu().contiguous();
  std::ofstream out(file, std::ios::binary | std::ios::app);
  if (!out.write(reinterpret_cast<const char*>(all.data_ptr<uint8_t>()), all.numel()).flush())
    throw Error(KINORA_ERROR_IO, file.string() + ": writing failed; free some space and start again");
}

}  // namespace

FrameFiles::FrameFiles(About about, const inference::Session& session, LiveMail& mail, Tell tell,
                       std::chrono::milliseconds patience)
    : about_(std::move(about)), session_(session), mail_(mail), tell_(std::move(tell)), patience_(patience) {
  if (about_.form != "whole" && about_.form != "chunks")
    throw Error(KINORA_ERROR_INVALID, "frames: expected \"whole\" or \"chunks\", got \"" + about_.form + "\"");
}

void FrameFiles::add(const at::Tensor& frames) {
  if (about_.form == "whole") return append_frames(about_.folder / "frames", frames);
  wait_for_room();
  const auto file = about_.folder / std::to_string(++sent_);
  append_frames(file, frames);
  tell_({{"frames", frames.sizes().vec()},
         {"file", file.string()},
         {"number", sent_},
         {"first_frame", frames_},
         {"video", about_.id}});
  frames_ += frames.size(0);
}

void FrameFiles::wait_for_room() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLookAgain{100};
  auto active = Clock::now();
  while (sent_ - taken_ >= kAhead) {
    if (cancelled() || session_.has_ended()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    const auto message = mail_.next(about_.id, Clock::now() + kLookAgain);
    if (message) taken_ = std::max<int64_t>(taken_, message->value("taken", int64_t{0}));
    if (message) active = Clock::now();
    if (Clock::now() - active > patience_)
      raise(KINORA_ERROR_FAILED, "the stream has ended: none of its chunks was taken for {} s",
            std::chrono::duration<double>(patience_).count());
  }
}

}  // namespace kinora::core
