#include "clips/video_cutter.hpp"

#include <algorithm>
#include <deque>
#include <thread>

#include "clips/clip_maker.hpp"
#include "clips/clip_works.hpp"
#include "clips/feed.hpp"
#include "media/byte_source.hpp"

namespace kinora::video {
namespace {

// Buffers decoded frames of a video until it is known which clips they belong to.
// [owner-thread] Holds consecutive frames; their bytes count as held by the feeder of `works`.
class FrameWindow {
 public:
  explicit FrameWindow(ClipWorks& works) : works_(works) {}

  void push(Feed frame) {
    works_.hold(frame.bytes);
    bytes_ += frame.bytes;
    frames_.push_back(std::move(frame));
  }
  void drop_before(int64_t frame) {
    while (!frames_.empty() && first_ < frame) drop_first();
  }
  // Drops the oldest frames until at most this many bytes remain, or two frames: one, and the next, which
  // gives its end.
  void shrink(int64_t most) {
    while (bytes_ > most && frames_.size() > 2) drop_first();
  }
  // Null if the frame was dropped.
  const Feed* at(int64_t frame) const {
    const int64_t place = frame - first_;
    return place < 0 || place >= static_cast<int64_t>(frames_.size()) ? nullptr
                                                                      : &frames_[static_cast<size_t>(place)];
  }

 private:
  void drop_first() {
    works_.hold(-frames_.front().bytes);
    bytes_ -= frames_.front().bytes;
    frames_.pop_front();
    ++first_;
  }

  ClipWorks& works_;
  std::deque<Feed> frames_;
  int64_t first_ = 0, bytes_ = 0;
};

// One pass over a video. Three positions advance: the decoded frames; `settled`, before which all cuts are
// known; and, `edge` frames behind, at_, before which frames have been passed to the clips of the open shot.
class VideoCutter {
 public:
  VideoCutter(ByteSource& video, const std::string& name, const CutterOptions& options)
      : name_(name),
        options_(options),
        decoder_(video, name, decoding(options)),
        finder_(decoder_.probe().video, options.shots),
        limits_(options.plan),
        clock_(decoder_.time_base()),
        sound_(video, name, options.transcode.audio, decoder_.time_base()),
        context_{video, name, options.transcode, decoder_.probe(), sound_.format()},
        works_(options.transcode.memory, makers(options)),
        window_(works_) {}
  ~VideoCutter() {
    works_.stop();
    for (auto& maker : makers_) maker.join();
  }
  VideoCutter(const VideoCutter&) = delete;
  VideoCutter& operator=(const VideoCutter&) = delete;

  VideoCut run() {
    for (size_t i = 0; i < makers(options_); ++i)
      makers_.emplace_back([this] { make_clips(context_, works_); });
    while (const Frame* frame = decoder_.next()) take(*frame);
    if (pts_.empty()) throw MediaError(no_frame(name_, decoder_.damaged()));
    VideoCut out;
    out.frames = static_cast<int64_t>(pts_.size());
    out.shots = finish_shots();
    for (tell(); !planned_.empty(); tell())
      works_.wait_for_result(*planned_.front().id, std::chrono::milliseconds(100));
    out.damaged = decoder_.damaged();
    const ClipWorks::Figures figures = works_.figures();
    out.decoded_again = figures.decoded_alone;
    out.made_alone = figures.made_alone;
    out.most_waiting = figures.peak;
    return out;
  }

 private:
  // A clip of the open shot that has not ended.
  struct Open {
    int64_t number = 0;
    int64_t first = 0;
    std::optional<ClipWorks::Id> id;  // none: it is not to be made, or its frames are gone
    bool begun = false, heard = false;
  };
  struct Planned {
    NumberedClip clip;
    std::optional<ClipWorks::Id> id;  // only if it is made
  };

  static DecoderOptions decoding(const CutterOptions& options) {
    DecoderOptions decoder = options.transcode.decoder;
    decoder.threads = options.transcode.threads;
    return decoder;
  }
  static size_t makers(const CutterOptions& options) {
    return static_cast<size_t>(std::max(1, options.transcode.parallel));
  }

  void take(const Frame& frame) {
    Feed feed = Feed::of_picture(*frame.picture, frame.index, frame.pts, frame.damaged);
    works_.make_room(feed.bytes, [this] { tell(); });
    pts_.push_back(frame.pts);
    video_end_ = frame.pts + frame.duration;
    const Moment now = clock_.next(frame.pts, frame.duration);
    times_.push(now.microseconds);
    finder_.push(*frame.picture, now);
    window_.push(std::move(feed));
    window_.shrink(options_.transcode.memory);
    const CutDecision& decided = finder_.settle(now);
    while (cuts_ < decided.cuts().size()) close(decided.cuts()[cuts_++]);
    pass(sure_before(decided.settled()));
    tell();
  }

  nlohmann::json finish_shots() {
    const auto frames = static_cast<int64_t>(pts_.size());
    finder_.finish({frames - 1, clock_.times().back()});
    nlohmann::json shots = finder_.shots(clock_);
    pts_.push_back(video_end_);
    times_.push(clock_.end());
    for (const auto& cuts = shots.at("cuts"); cuts_ < cuts.size(); ++cuts_) close(cuts[cuts_]);
    close(frames);
    return shots;
  }

  // Earliest end of the open shot's part without edges, given that the shot continues at least to `settled`.
  // For frames before it, the next frame's time is known.
  int64_t sure_before(int64_t settled) const {
    const int64_t newest = times_.known() - 1, end = std::max(shot_, std::min(settled, newest));
    return times_.first_within(shot_, end, limits_.edge);
  }

  // Passes frames before `end` to the clips: they belong to the open shot without its edges in any case.
  void pass(int64_t end) {
    const int64_t first = times_.last_within(shot_, times_.known() - 1, limits_.edge);
    for (at_ = std::max(at_, first); at_ < end; ++at_) {
      const int64_t pts = pts_[static_cast<size_t>(at_)];
      hear(pts);
      while (!open_.empty() && is_over(open_.front().first, limits_.longest)) end_first(pts);
      if (opened_ == 0 || begins_stride()) open();
      see();
    }
    window_.drop_before(at_);
  }

  // Whether a clip that began at `first` would exceed `length` with frame at_.
  bool is_over(int64_t first, int64_t length) const {
    return at_ > first && times_.at(at_ + 1) - times_.at(first) > length;
  }

  bool begins_stride() const {
    return options_.plan.long_shots == "stride" && is_over(last_opened_, limits_.stride);
  }

  void open() {
    const int64_t number = numbered_ + opened_++;
    Open clip{number, at_, std::nullopt, false, false};
    last_opened_ = at_;
    const bool never = options_.plan.max_seconds < options_.plan.min_seconds;
    if (options_.fate(number, options_.plan.max_seconds, never) == Fate::made) clip.id = works_.add(number);
    if (open_.empty()) sound_.start(pts_[static_cast<size_t>(at_)]);
    open_.push_back(clip);
  }

  // Feeds picture at_ to all open clips.
  void see() {
    const Feed* frame = window_.at(at_);
    for (Open& clip : open_) {
      if (!clip.id) continue;
      if (!frame) {
        works_.let_go(*clip.id);
        clip.id.reset();
        continue;
      }
      works_.feed(*clip.id, Feed::of_picture(*frame->picture, at_, frame->pts, frame->damaged));
      if (clip.begun || !is_likely(clip)) continue;
      clip.begun = true;
      works_.begin(*clip.id);
    }
  }

  // Whether the clip is long enough and, with overlapping clips, the previous one has not reached the shot's
  // end.
  bool is_likely(const Open& clip) const {
    if (&clip != &open_.front()) return false;
    const Range range{clip.first, at_ + 1};
    return fate_of(clip.number, range, too_short(range, times_, options_.plan)) == Fate::made;
  }

  Fate fate_of(int64_t number, const Range& range, bool short_) const {
    return options_.fate(number, static_cast<double>(times_.at(range.end) - times_.at(range.first)) / 1e6,
                         short_);
  }

  // Feeds the sound up to `pts` to all open clips.
  void hear(int64_t pts) {
    if (open_.empty()) return;
    sound_.until(pts, [&](const std::shared_ptr<const Planes>& planes, bool over) {
      for (Open& clip : open_) {
        if (!clip.id || (over && clip.heard)) continue;
        clip.heard = true;
        works_.feed(*clip.id, Feed::of_sound(planes, at_, pts));
      }
    });
  }

  void let_go_open() {
    for (const Open& clip : open_)
      if (clip.id) works_.let_go(*clip.id);
    open_.clear();
  }

  // Ends the first open clip, which has the maximum length while its shot continues.
  void end_first(int64_t pts) {
    if (options_.plan.long_shots == "equal") return let_go_open();
    const Open clip = open_.front();
    open_.pop_front();
    const Range range{clip.first, at_};
    plan({range, {times_.at(clip.first), times_.at(at_)}, too_short(range, times_, options_.plan)}, clip.id,
         pts);
  }

  // Ends the open shot at the cut; its clips are now known.
  void close(int64_t cut) {
    const Range shot = without_transitions({cut_, cut}, finder_.transitions());
    const int64_t end = std::max(shot_, shot.end);
    pass(sure_before(end));
    if (!open_.empty()) hear(pts_[static_cast<size_t>(at_)]);
    std::vector<PlannedClip> clips;
    plan_shot(shot, times_, options_.plan, clips);
    while (planned_of_shot_ < static_cast<int64_t>(clips.size()))
      finish(clips[static_cast<size_t>(planned_of_shot_)]);
    let_go_open();
    cut_ = cut;
    shot_ = without_transitions({cut, cut}, finder_.transitions()).first;
    numbered_ += planned_of_shot_;
    opened_ = planned_of_shot_ = 0;
  }

  // Finishes the next clip of the ended shot, from the data fed so far if that is complete.
  void finish(const PlannedClip& clip) {
    std::optional<ClipWorks::Id> id;
    if (!open_.empty() && open_.front().number == numbered_ + planned_of_shot_) {
      id = open_.front().id;
      const bool all = open_.front().first == clip.range.first && at_ == clip.range.end;
      open_.pop_front();
      if (id && !all) {
        works_.let_go(*id);
        id.reset();
      }
    }
    plan(clip, id, pts_[static_cast<size_t>(clip.range.end)]);
  }

  void plan(const PlannedClip& clip, std::optional<ClipWorks::Id> id, int64_t end_pts) {
    const int64_t number = numbered_ + planned_of_shot_++;
    const Fate fate = fate_of(number, clip.range, clip.too_short);
    const bool whole = id && fate == Fate::made && works_.end(*id, {clip.range, end_pts});
    if (id && !whole) works_.let_go(*id);
    if (fate == Fate::made && !whole) id = add_alone(number, {clip.range, end_pts});
    if (fate != Fate::made) id.reset();
    planned_.push_back({{number, clip, fate}, id});
  }

  ClipWorks::Id add_alone(int64_t number, const ClipWorks::Ended& how) {
    if (!index_ || static_cast<int64_t>(index_->pts.size()) < how.range.end) {
      index_ = std::make_shared<FrameIndex>(decoder_.index());
      works_.set_index(index_);
    }
    return works_.add_apart(number, how, ClipSource::alone);
  }

  // Reports the clips that are due.
  void tell() {
    if (options_.transcode.check) options_.transcode.check();
    while (!planned_.empty()) {
      Planned& next = planned_.front();
      Clip clip;
      if (next.id) {
        auto made = works_.result(*next.id);
        if (!made) return;
        clip = std::move(*made);
      }
      options_.tell(next.clip, std::move(clip));
      works_.turn(next.clip.number + 1);
      planned_.pop_front();
    }
  }

  const std::string& name_;
  const CutterOptions& options_;
  Decoder decoder_;
  ShotFinder finder_;
  PlanTimes limits_;
  VideoClock clock_;
  SoundFeed sound_;
  MakerContext context_;
  ClipWorks works_;
  FrameWindow window_;
  std::vector<std::thread> makers_;
  std::vector<int64_t> pts_;  // of every frame; in the end also the end of the last frame
  FrameTimes times_;          // the same in microseconds from the first
  int64_t video_end_ = 0;
  std::shared_ptr<const FrameIndex> index_;
  size_t cuts_ = 0;                           // number of cuts that have closed a shot
  int64_t cut_ = 0, shot_ = 0, at_ = 0;       // the open shot begins at the cut; its first frame is shot_
  int64_t numbered_ = 0;                      // clips of earlier shots
  int64_t opened_ = 0, planned_of_shot_ = 0;  // clips of the open shot
  int64_t last_opened_ = 0;                   // first frame of the clip opened last
  std::deque<Open> open_;                     // clips that have opened and not ended, ascending
  std::deque<Planned> planned_;               // clips not yet reported
};

}  // namespace

VideoCut cut_video(ByteSource& video, const std::string& name, const CutterOptions& options) {
  return VideoCutter(video, name, options).run();
}

}  // namespace kinora::video
