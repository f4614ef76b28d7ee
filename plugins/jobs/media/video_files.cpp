#include "plugins/jobs/media/video_files.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "core/io/atomic_file.hpp"
#include "core/plugin/service.hpp"
#include "host/stages/one_stage.hpp"
#include "plugins/jobs/fragments/video_fragments.hpp"
#include "plugins/jobs/media/clips.hpp"
#include "plugins/jobs/media/decode_thread.hpp"
#include "plugins/jobs/media/strip.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStrip = 6;           // frames
constexpr const char* kMp4 = "medium";  // x264's preset, stage/video.write's own

bool has(const VideoFiles::Form& form, const char* format) {
  return std::find(form.formats.begin(), form.formats.end(), format) != form.formats.end();
}

fs::path with_tail(const fs::path& base, const std::string& tail) { return base.string() + tail; }

// Frames [first, first + T) of a video as pictures in a folder.
void write_frames(JobContext& context, const at::Tensor& frames, int64_t first, const fs::path& folder,
                  const std::string& comment) {
  for (int64_t i = 0; i < frames.size(0); ++i)
    write_strip(context, frames.narrow(0, i, 1), 1, folder / fmt::format("{:05}.png", first + i), comment);
}

}  // namespace

// The files that do not need the whole video. A thread of their own writes them while the next chunk is made.
class VideoFiles::Growing {
 public:
  Growing(JobContext& context, const Form& form, int64_t frames, std::string known)
      : context_(context), form_(form), known_(std::move(known)) {
    const at::Tensor numbers = strip_numbers(frames, kStrip);
    wanted_.assign(numbers.data_ptr<int64_t>(), numbers.data_ptr<int64_t>() + numbers.numel());
    if (has(form_, "png")) pictures_ = or_throw(AtomicFolder::create(form_.base));
    if (has(form_, "mp4")) part_ = or_throw(AtomicFile::create(with_tail(form_.base, ".mp4")));
    thread_.emplace([this](const at::Tensor& chunk) { write(chunk); });
  }

  void add(const at::Tensor& frames) { thread_->push(frames); }

  void finish(const std::string& comment) {
    thread_->finish();
    if (stream_) {
      stream_->finish();
      writer().remux(part_->temporary(), with_tail(form_.base, ".mp4"), comment);
      part_.reset();
    }
    if (pictures_) or_throw(pictures_->commit(true));
    write_strip(context_, at::cat(strip_), kStrip, with_tail(form_.base, ".png"), comment);
  }

 private:
  const VideoFragments& writer() const { return service<VideoFragments>(context_.runtime().registry()); }

  // On the thread.
  void write(const at::Tensor& chunk) {
    const at::NoGradGuard off;
    const at::Tensor frames = chunk.cpu().contiguous();
    if (part_) encode(frames);
    if (pictures_) write_frames(context_, frames, done_, pictures_->temporary(), known_);
    for (const int64_t number : wanted_)
      if (number >= done_ && number < done_ + frames.size(0))
        strip_.push_back(frames.narrow(0, number - done_, 1).clone());  // a view would keep the chunk
    done_ += frames.size(0);
  }

  void encode(const at::Tensor& frames) {
    if (!stream_)
      stream_ = writer().open({.height = frames.size(1),
                               .width = frames.size(2),
                               .fps = form_.fps,
                               .crf = form_.crf,
                               .preset = kMp4},
                              [this](std::span<const uint8_t> bytes, VideoFragments::Kind) {
                                or_throw(part_->write(bytes.data(), bytes.size()));
                              });
    stream_->add(frames.data_ptr<uint8_t>(), frames.size(0));
  }

  JobContext& context_;
  const Form& form_;
  const std::string known_;
  std::vector<int64_t> wanted_;  // numbers of the strip's frames
  int64_t done_ = 0;             // frames
  std::vector<at::Tensor> strip_;
  std::optional<AtomicFolder> pictures_;
  std::optional<AtomicFile> part_;  // the MP4 in fragments, never given its name
  std::unique_ptr<VideoFragments::Stream> stream_;
  std::optional<inference::DecodeThread<at::Tensor>> thread_;  // last, because it uses the others
};

VideoFiles::VideoFiles(JobContext& context, Form form) : context_(context), form_(std::move(form)) {}
VideoFiles::~VideoFiles() = default;

void VideoFiles::grow(int64_t frames, const std::string& known) {
  growing_ = std::make_unique<Growing>(context_, form_, frames, known);
}

void VideoFiles::add(const at::Tensor& frames) {
  frames_ += frames.size(0);
  height_ = frames.size(1);
  width_ = frames.size(2);
  if (!growing_ || has(form_, "webp")) kept_.push_back(frames);
  if (growing_) growing_->add(frames);
}

void VideoFiles::finish(const std::string& comment) {
  const at::Tensor whole = kept_.size() == 1 ? kept_[0] : kept_.empty() ? at::Tensor() : at::cat(kept_);
  kept_.clear();
  for (const auto& format : form_.formats) {
    if (format == "webp" || (format == "mp4" && !growing_)) write_encoded(format, whole, comment);
    if (format == "png" && !growing_) write_pictures(whole, comment);
  }
  if (growing_)
    growing_->finish(comment);
  else
    write_strip(context_, whole, kStrip, with_tail(form_.base, ".png"), comment);
}

void VideoFiles::write_pictures(const at::Tensor& frames, const std::string& comment) {
  AtomicFolder folder = or_throw(AtomicFolder::create(form_.base));
  write_frames(context_, frames, 0, folder.temporary(), comment);
  or_throw(folder.commit(true));
}

void VideoFiles::write_encoded(const std::string& format, const at::Tensor& frames,
                               const std::string& comment) {
  Sample sample("video");
  set_frames(sample, frames);
  sample.set("comment", comment);
  const OneStage write(context_.runtime(), "video.write",
                       json{{"format", format}, {"fps", form_.fps}, {"crf", form_.crf}});
  const Sample made = write(sample);
  const auto bytes = *made.bytes(format.c_str());
  or_throw(write_file_atomically(with_tail(form_.base, "." + format),
                                 {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

}  // namespace kinora::core
