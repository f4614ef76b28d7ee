#include "transcode.hpp"

#include <algorithm>

#include "audio_reader.hpp"
#include "clip_writer.hpp"
#include "media_error.hpp"

namespace kinora::video {
namespace {

constexpr int64_t kWorthSeeking = 48;  // frames that decode faster than a seek

std::string title(const std::string& name, const Range& range) {
  return name + ": clip [" + std::to_string(range.first) + ", " + std::to_string(range.end) + ")";
}

void validate(const std::vector<Range>& ranges, const std::string& name) {
  int64_t last_end = 0;
  for (const Range& range : ranges) {
    if (range.first < last_end || range.end <= range.first) {
      throw MediaError(title(name, range) + " is empty or starts before frame " + std::to_string(last_end) +
                       "; give non-empty ranges in ascending order without overlap");
    }
    last_end = range.end;
  }
}

// Feeds the frames of a film to the clips that want them.
class Cutter {
 public:
  Cutter(ByteSource& film, const std::string& name, const std::vector<Range>& ranges,
         const TranscodeOptions& options, const ClipCallback& callback)
      : name_(name),
        ranges_(ranges),
        options_(options),
        callback_(callback),
        decoder_(film, name, decoding(options)) {
    if (options.audio) audio_ = AudioReader::open(film, name);
  }

  std::string run() {
    const Frame* frame = nullptr;
    while (clip_ < ranges_.size() && (frame = next_wanted()) != nullptr) {
      last_end_ = frame->pts + frame->duration;
      if (frame->index == range().end) finish(frame->pts);
      if (clip_ < ranges_.size() && frame->index >= range().first) take(*frame);
    }
    if (clip_ < ranges_.size()) finish_at_end();
    return decoder_.damaged();
  }

 private:
  static DecoderOptions decoding(const TranscodeOptions& options) {
    DecoderOptions decoder = options.decoder;
    decoder.threads = options.threads;
    return decoder;
  }

  const Range& range() const { return ranges_[clip_]; }

  // The next frame of the open clip (or the one after its last, which ends it), else the first of the next
  // clip.
  const Frame* next_wanted() {
    const bool far = !writer_ && error_.empty() && range().first - decoder_.position() > kWorthSeeking;
    if (far) decoder_.skip_to(range().first);
    return decoder_.next();
  }

  std::string incredible() const {
    return title(name_, range()) +
           " spans over an hour or starts years from zero by its timestamps; remux the film";
  }

  void take(const Frame& frame) {
    if (!error_.empty()) return;
    if (frame.damaged) {
      error_ = title(name_, range()) + " is damaged from frame " + std::to_string(frame.index) +
               " on; fetch or re-encode the film";
      writer_.reset();
      return;
    }
    if (!writer_) writer_ = std::make_unique<ClipWriter>(frame, decoder_.probe(), audio_.get(), options_);
    if (writer_->credible(frame.pts)) return writer_->add(frame);
    error_ = incredible();
    writer_.reset();
  }

  void finish(int64_t end_pts) {
    Clip clip;
    if (writer_ && writer_->credible(end_pts)) {
      clip = writer_->finish(end_pts);
    } else if (error_.empty()) {
      error_ = incredible();
    }
    clip.error = std::exchange(error_, "");
    writer_.reset();
    callback_(clip_++, std::move(clip));
  }

  // The film is over: the clip that ends with it is whole, the others are not.
  void finish_at_end() {
    if (decoder_.position() == range().end) finish(last_end_);
    const std::string damage = decoder_.damaged();
    for (; clip_ < ranges_.size(); ++clip_) {
      Clip clip;
      clip.error = title(name_, range()) + " reaches past the film's end at frame " +
                   std::to_string(decoder_.position()) +
                   (damage.empty() ? "; shorten the range" : " (" + damage + ")");
      writer_.reset();
      callback_(clip_, std::move(clip));
    }
  }

  const std::string& name_;
  const std::vector<Range>& ranges_;
  const TranscodeOptions& options_;
  const ClipCallback& callback_;
  Decoder decoder_;
  std::unique_ptr<AudioReader> audio_;
  std::unique_ptr<ClipWriter> writer_;  // of the clip being cut
  size_t clip_ = 0;                     // index of the clip being cut or waited for
  std::string error_;                   // of that clip
  int64_t last_end_ = 0;                // ticks: end of the last frame seen
};

}  // namespace

std::string transcode_clips(ByteSource& film, const std::string& name, const std::vector<Range>& ranges,
                            const TranscodeOptions& options, const ClipCallback& callback) {
  validate(ranges, name);
  return Cutter(film, name, ranges, options, callback).run();
}

}  // namespace kinora::video
