#include "clips/transcode.hpp"

#include <algorithm>
#include <thread>

#include "clips/clip_maker.hpp"
#include "clips/feed.hpp"
#include "media/byte_source.hpp"
#include "shots/frame_times.hpp"

namespace kinora::video {
namespace {

constexpr int64_t kWorthSeeking = 48;  // number of frames that decode faster than a seek
constexpr int64_t kWorthCopying = 24;  // frames; fewer do not justify another IDR and parameter set

void validate(const std::vector<Range>& ranges, const std::string& name) {
  Range last{0, 0};
  for (const Range& range : ranges) {
    if (range.first < last.first || range.end <= range.first || range.end < last.end)
      throw MediaError(clip_title(name, range) + " is empty or comes before [" + std::to_string(last.first) +
                       ", " + std::to_string(last.end) + "); give non-empty ranges in ascending order");
    last = range;
  }
}

bool overlap(const std::vector<Range>& ranges) {
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].end) return true;
  return false;
}

// Passes the video's frames and sound to their clips in one pass.
class Feeder {
 public:
  Feeder(ByteSource& video, const std::string& name, const std::vector<Range>& ranges,
         const TranscodeOptions& options, const ClipCallback& callback)
      : name_(name),
        ranges_(ranges),
        options_(options),
        callback_(callback),
        indexed_(options.packets != nullptr),
        apart_(indexed_ && !overlap(ranges)),
        decoder_(video, name, decoding(options)),
        sound_(video, name, options.audio, decoder_.time_base()),
        context_{video, name, options, decoder_.probe(), sound_.format()},
        makers_wanted_(static_cast<size_t>(
            std::clamp<int64_t>(options.parallel, 1, static_cast<int64_t>(ranges.size())))),
        works_(options.memory, makers_wanted_),
        clips_(ranges.size()) {
    if (options.decoder.index) works_.set_index(options.decoder.index);
    if (!apart_ || !may_copy(decoder_.probe(), options_)) return;
    for (size_t i = 0; i < ranges_.size(); ++i)
      if (worth_copying(ranges_[i])) clips_[i].way = ClipSource::copied;
  }

  ~Feeder() {
    works_.stop();
    for (auto& maker : makers_) maker.join();
  }
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  std::string run() {
    for (size_t i = 0; i < makers_wanted_; ++i)
      makers_.emplace_back([this] { make_clips(context_, works_); });
    add_copied();
    while (done_ < ranges_.size() && step()) tell();
    for (size_t i = done_; i < ranges_.size(); ++i) break_off(i);
    for (tell(); told_ < ranges_.size(); tell())
      works_.wait_for_result(*clips_[told_].id, std::chrono::milliseconds(100));
    return decoder_.damaged();
  }

 private:
  struct Fed {
    ClipSource way = ClipSource::fed;
    std::optional<ClipWorks::Id> id;  // set once the clip is added
    ClipSpan span;
    bool heard = false;
    std::string error;  // set if the video lacks the clip's end
  };

  static DecoderOptions decoding(const TranscodeOptions& options) {
    DecoderOptions decoder = options.decoder;
    decoder.threads = options.threads;
    return decoder;
  }

  bool worth_copying(const Range& range) const {
    const Range run = whole_gops(*options_.packets, range);
    return inside_index(range) && (run == range || run.end - run.first >= kWorthCopying);
  }

  bool inside_index(const Range& range) const {
    return range.end <= static_cast<int64_t>(options_.packets->frames->pts.size());
  }

  // Gives copied clips to the makers as soon as all earlier clips have been given.
  void add_copied() {
    while (added_ < clips_.size() && clips_[added_].way == ClipSource::copied) add_apart(ClipSource::copied);
  }

  void add_apart(ClipSource way) {
    Fed& clip = clips_[added_];
    clip.way = way;
    clip.id = works_.add_apart(static_cast<int64_t>(added_),
                               {ranges_[added_], options_.packets->end_of(ranges_[added_])}, way);
    ++added_;
  }

  // While there is no room for frames, an idle maker decodes the next clip itself.
  void wait() {
    if (apart_ && works_.has_idle_maker() && added_ < clips_.size() && inside_index(ranges_[added_])) {
      add_apart(ClipSource::decoded);
      add_copied();
    }
    tell();
  }

  // Reports finished results and calls the caller's check.
  void tell() {
    if (options_.check) options_.check();
    while (told_ < clips_.size()) {
      Fed& next = clips_[told_];
      Clip clip;
      clip.error = next.error;
      if (next.error.empty()) {
        auto made = told_ < done_ ? works_.result(*next.id) : std::nullopt;
        if (!made) return;
        clip = std::move(*made);
        clip.span = next.span;
      }
      works_.turn(static_cast<int64_t>(told_) + 1);
      callback_(told_++, std::move(clip));
    }
  }

  // Advances by one frame: ends clips, begins clips, and feeds the frame to the open ones. False at the end
  // of the video.
  bool step() {
    if (done_ == open_end_) at_ = std::max(at_, ranges_[done_].first);
    if (indexed_ && !needs_picture()) return step_by_index();
    if (at_ - decoder_.position() > kWorthSeeking || (indexed_ && at_ > decoder_.position()))
      decoder_.skip_to(at_);
    const Frame* frame = decoder_.next();
    if (frame == nullptr) return end_of_video(decoder_.position(), last_end_);
    if (frame->index < at_) return true;
    last_end_ = frame->pts + frame->duration;
    pass(frame->pts, frame);
    return true;
  }

  // Advances by the index alone, if no open clip needs the picture.
  bool step_by_index() {
    const PacketIndex& index = *options_.packets;
    const auto frames = static_cast<int64_t>(index.frames->pts.size());
    if (at_ >= frames) return end_of_video(frames, index.video_end);
    pass(index.frames->pts[static_cast<size_t>(at_)], nullptr);
    return true;
  }

  bool needs_picture() const {
    for (size_t i = done_; i < open_end_; ++i)
      if (ranges_[i].end > at_ && clips_[i].way == ClipSource::fed) return true;
    for (size_t i = open_end_; i < ranges_.size() && ranges_[i].first == at_; ++i)
      if (clips_[i].way == ClipSource::fed) return true;
    return false;
  }

  void pass(int64_t pts, const Frame* frame) {
    hear(pts);
    while (done_ < open_end_ && ranges_[done_].end == at_) end(pts);
    for (; open_end_ < ranges_.size() && ranges_[open_end_].first == at_; ++open_end_) open(pts);
    for (size_t i = done_; frame != nullptr && i < open_end_; ++i)
      if (clips_[i].way == ClipSource::fed)
        give(i, Feed::of_picture(*frame->picture, at_, pts, frame->damaged));
    ++at_;
  }

  void open(int64_t pts) {
    if (done_ == open_end_) sound_.start(pts);
    Fed& clip = clips_[open_end_];
    clip.span.start_us = microseconds(pts);
    if (clip.id) return;
    clip.id = works_.add(static_cast<int64_t>(added_++));
    works_.begin(*clip.id);
    add_copied();
  }

  void end(int64_t pts) {
    Fed& clip = clips_[done_];
    clip.span.end_us = microseconds(pts);
    const ClipWorks::Ended how{ranges_[done_], pts};
    if (!works_.end(*clip.id, how)) {
      works_.let_go(*clip.id);
      if (!options_.decoder.index) works_.set_index(std::make_shared<FrameIndex>(decoder_.index()));
      clip.id = works_.add_apart(static_cast<int64_t>(done_), how, ClipSource::alone);
    }
    ++done_;
  }

  int64_t microseconds(int64_t pts) const {
    const Rational base = decoder_.time_base();
    const auto& frames = indexed_ ? options_.packets->frames->pts : decoder_.index().pts;
    const int64_t start = frames.empty() || frames.front() == AV_NOPTS_VALUE ? 0 : frames.front();
    return presentation_microseconds(pts, start, base.num, base.den);
  }

  void give(size_t clip, Feed feed) {
    works_.make_room(feed.bytes, [this] { wait(); });
    works_.feed(*clips_[clip].id, std::move(feed));
  }

  // Feeds the sound up to `pts` to the open clips.
  void hear(int64_t pts) {
    if (done_ == open_end_) return;
    sound_.until(pts, [&](const std::shared_ptr<const Planes>& planes, bool over) {
      for (size_t i = done_; i < open_end_; ++i) {
        if (over && clips_[i].heard) continue;
        clips_[i].heard = true;
        give(i, Feed::of_sound(planes, at_, pts));
      }
    });
  }

  // Completes the clips that end with the video.
  bool end_of_video(int64_t frames, int64_t end_pts) {
    video_frames_ = frames;
    hear(end_pts);
    while (done_ < open_end_ && ranges_[done_].end == at_) end(end_pts);
    return false;
  }

  void break_off(size_t clip) {
    const std::string damage = decoder_.damaged();
    if (clips_[clip].id) works_.let_go(*clips_[clip].id);
    clips_[clip].error = clip_title(name_, ranges_[clip]) + " reaches past the video's end at frame " +
                         std::to_string(video_frames_) +
                         (damage.empty() ? "; shorten the range" : " (" + damage + ")");
  }

  const std::string& name_;
  const std::vector<Range>& ranges_;
  const TranscodeOptions& options_;
  const ClipCallback& callback_;
  const bool indexed_,
      apart_;  // apart_: makers may decode and copy clips, because no clips share frames
  Decoder decoder_;
  SoundFeed sound_;
  MakerContext context_;
  const size_t makers_wanted_;
  ClipWorks works_;
  std::vector<Fed> clips_;
  std::vector<std::thread> makers_;
  int64_t at_ = 0;                  // index of the next frame
  int64_t video_frames_ = 0;        // known at the end of the video
  size_t done_ = 0, open_end_ = 0;  // clips before done_ have ended, those before open_end_ have begun
  size_t added_ = 0, told_ = 0;     // clips before these have been given to the makers, and reported
  int64_t last_end_ = 0;            // end of the last frame seen, ticks
};

}  // namespace

std::string transcode_clips(ByteSource& video, const std::string& name, const std::vector<Range>& ranges,
                            const TranscodeOptions& options, const ClipCallback& callback) {
  validate(ranges, name);
  if (ranges.empty()) return "";
  TranscodeOptions given = options;
  if (given.packets) given.decoder.index = given.packets->frames;
  return Feeder(video, name, ranges, given, callback).run();
}

}  // namespace kinora::video
