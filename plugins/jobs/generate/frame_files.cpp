#include "plugins/jobs/generate/frame_files.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>

#include <ATen/ATen.h>

#include "core/base/cancel.hpp"

namespace kinora::core {
namespace {

void append_frames(const std::filesystem::path& file, const at::Tensor& frames) {
  const at::Tensor all = frames.cpu().contiguous();
  std::ofstream out(file, std::ios::binary | std::ios::app);
  if (!out.write(reinterpret_cast<const char*>(all.data_ptr<uint8_t>()), all.numel()).flush())
    throw Error(KINORA_ERROR_IO, file.string() + ": writing failed; free some space and start again");
}

}  // namespace

FrameFiles::FrameFiles(About about, const inference::Session& session, LiveMail& mail, Tell tell)
    : about_(std::move(about)), session_(session), mail_(mail), tell_(std::move(tell)) {
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
  constexpr std::chrono::milliseconds kLookAgain{100};
  while (sent_ - taken_ >= kAhead) {
    if (cancelled() || session_.has_ended()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    const auto message = mail_.next(about_.id, std::chrono::steady_clock::now() + kLookAgain);
    if (message) taken_ = std::max<int64_t>(taken_, message->value("taken", int64_t{0}));
  }
}

}  // namespace kinora::core
