#include "clips/film_cutter.hpp"

#include <deque>
#include <thread>

#include "clips/frame_window.hpp"
#include "clips/clip_maker.hpp"
#include "media/media_error.hpp"
#include "clips/sound_feed.hpp"

namespace kinora::video {
namespace {

// One pass over a film. Three places move through it: decoded frames, those before `settled` of which it is known whether
// a cut is there, and, `edge` frames behind, those before at_ that have gone to the clips of the open shot.
class FilmCutter {
 public:
  FilmCutter(ByteSource& film, const std::string& name, const FilmOptions& options)
      : name_(name),
        options_(options),
        decoder_(film, name, decoding(options)),
        finder_(decoder_.probe().video, options.shots),
        counts_(finder_.rate(), options.plan),
        clock_(decoder_.time_base()),
        sound_(film, name, options.transcode.audio, decoder_.time_base()),
        context_{film, name, options.transcode, decoder_.probe(), sound_.format()},
        works_(options.transcode.memory, makers(options)),
        window_(works_) {}
  ~FilmCutter() {
    works_.stop();
    for (auto& maker : makers_) maker.join();
  }
  FilmCutter(const FilmCutter&) = delete;
  FilmCutter& operator=(const FilmCutter&) = delete;

  FilmCut run() {
    for (size_t i = 0; i < makers(options_); ++i) makers_.emplace_back([this] { make_clips(context_, works_); });
    while (const Frame* frame = decoder_.next()) take(*frame);
    if (pts_.empty()) throw MediaError(no_frame(name_, decoder_.damaged()));
    FilmCut out;
    out.frames = static_cast<int64_t>(pts_.size());
    out.shots = finish_shots();
    for (tell(); !planned_.empty(); tell()) works_.wait_for_result(*planned_.front().id, std::chrono::milliseconds(100));
    out.damaged = decoder_.damaged();
    const ClipWorks::Figures figures = works_.figures();
    out.decoded_again = figures.decoded_alone;
    out.made_alone = figures.made_alone;
    out.most_waiting = figures.peak;
    return out;
  }

 private:
  // A clip of the open shot whose end has not come.
  struct Open {
    int64_t number = 0;
    Range range;                      // its end is the latest that it may have
    std::optional<ClipWorks::Id> id;  // none: nobody wants it, or its frames are gone
    bool begun = false, heard = false;
  };
  struct Planned {
    FilmClip clip;
    std::optional<ClipWorks::Id> id;  // of one that is made
  };

  static DecoderOptions decoding(const FilmOptions& options) {
    DecoderOptions decoder = options.transcode.decoder;
    decoder.threads = options.transcode.threads;
    return decoder;
  }
  static size_t makers(const FilmOptions& options) {
    return static_cast<size_t>(std::max(1, options.transcode.parallel));
  }

  void take(const Frame& frame) {
    Feed feed = Feed::of_picture(*frame.picture, frame.index, frame.pts, frame.damaged);
    works_.make_room(feed.bytes, [this] { tell(); });
    pts_.push_back(frame.pts);
    film_end_ = frame.pts + frame.duration;
    const Moment now = clock_.next(frame.pts);
    finder_.push(*frame.picture, now);
    window_.push(std::move(feed));
    window_.shrink(options_.transcode.memory);
    const CutDecision& decided = finder_.settle(now);
    while (cuts_ < decided.cuts().size()) close(decided.cuts()[cuts_++]);
    pass(decided.settled() - counts_.edge);
    tell();
  }

  nlohmann::json finish_shots() {
    const auto frames = static_cast<int64_t>(pts_.size());
    finder_.finish({frames - 1, clock_.times().back()});
    nlohmann::json shots = finder_.shots(clock_.times());
    pts_.push_back(film_end_);
    for (const auto& cuts = shots.at("cuts"); cuts_ < cuts.size(); ++cuts_) close(cuts[cuts_]);
    close(frames);
    return shots;
  }

  // Frames before `end` belong to the open shot without its edges, whatever comes.
  void pass(int64_t end) {
    const int64_t first = shot_ + counts_.edge;
    for (at_ = std::max(at_, first); at_ < end; ++at_) {
      const int64_t pts = pts_[static_cast<size_t>(at_)];
      hear(pts);
      if (options_.plan.long_shots == "equal" && at_ == first + counts_.longest) let_go_open();
      if (!open_.empty() && open_.front().range.end == at_) end_first(pts);
      if (at_ == next_first()) open();
      see();
    }
    window_.drop_before(at_);
  }

  // Where the next clip of the open shot begins, if the shot is that long; -1: there is none.
  int64_t next_first() const {
    const int64_t first = shot_ + counts_.edge;
    if (options_.plan.long_shots == "stride") return first + opened_ * counts_.stride;
    return opened_ == 0 ? first : -1;
  }

  void open() {
    const int64_t number = numbered_ + opened_++;
    Open clip{number, {at_, at_ + counts_.longest}, std::nullopt, false, false};
    if (fate_of(number, counts_.longest) == Fate::made) clip.id = works_.add(number);
    if (open_.empty()) sound_.start(pts_[static_cast<size_t>(at_)]);
    open_.push_back(clip);
  }

  // The picture at_, for all open clips.
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

  // It is long enough and, of clips that overlap, the one before it has not reached the shot's end.
  bool is_likely(const Open& clip) const {
    const int64_t frames = at_ + 1 - clip.range.first;
    if (clip.number > numbered_ && at_ < clip.range.end - counts_.stride) return false;
    return fate_of(clip.number, frames) == Fate::made;
  }

  Fate fate_of(int64_t number, int64_t frames) const {
    return options_.fate(number, frames, too_short(frames, finder_.rate(), options_.plan));
  }

  // The sound up to `pts`, for all open clips.
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

  // The first open clip is as long as a clip may be, and its shot goes on.
  void end_first(int64_t pts) {
    const Open clip = open_.front();
    open_.pop_front();
    const int64_t frames = clip.range.end - clip.range.first;
    plan({clip.range, too_short(frames, finder_.rate(), options_.plan)}, clip.id, pts);
  }

  // The open shot ends at `end`: now it is known which clips it has.
  void close(int64_t end) {
    pass(end - counts_.edge);
    if (!open_.empty()) hear(pts_[static_cast<size_t>(at_)]);
    std::vector<PlannedClip> clips;
    plan_shot({shot_, end}, finder_.rate(), options_.plan, clips);
    while (planned_of_shot_ < static_cast<int64_t>(clips.size())) finish(clips[static_cast<size_t>(planned_of_shot_)]);
    let_go_open();
    shot_ = end;
    numbered_ += planned_of_shot_;
    opened_ = planned_of_shot_ = 0;
  }

  // The next clip of the shot that has ended, by what has gone to it so far if that is all of it.
  void finish(const PlannedClip& clip) {
    std::optional<ClipWorks::Id> id;
    if (!open_.empty() && open_.front().number == numbered_ + planned_of_shot_) {
      id = open_.front().id;
      const bool all = open_.front().range.first == clip.range.first && at_ == clip.range.end;
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
    const Fate fate = options_.fate(number, clip.range.end - clip.range.first, clip.too_short);
    const bool whole = id && fate == Fate::made && works_.end(*id, {clip.range, end_pts});
    if (id && !whole) works_.let_go(*id);
    if (fate == Fate::made && !whole) id = add_alone(number, {clip.range, end_pts});
    if (fate != Fate::made) id.reset();
    planned_.push_back({{number, clip, fate, {shot_, time_of(shot_)}}, id});
  }

  ClipWorks::Id add_alone(int64_t number, const ClipWorks::Ended& how) {
    if (!index_ || static_cast<int64_t>(index_->pts.size()) < how.range.end) {
      index_ = std::make_shared<FrameIndex>(decoder_.index());
      works_.set_index(index_);
    }
    return works_.add_apart(number, how, Way::alone);
  }

  // Clips whose turn it is.
  void tell() {
    if (options_.transcode.check) options_.transcode.check();
    while (!planned_.empty()) {
      Planned& next = planned_.front();
      Clip clip;
      if (next.id) {
        auto made = works_.result(*next.id);
        if (!made) return;
        clip = std::move(*made);
        const Range& range = next.clip.planned.range;
        clip.span = ClipSpan{time_of(range.first), time_of(range.end)};
      }
      options_.tell(next.clip, std::move(clip));
      works_.turn(next.clip.number + 1);
      planned_.pop_front();
    }
  }

  // Microseconds from the first frame.
  int64_t time_of(int64_t frame) const {
    const Rational base = decoder_.time_base();
    return presentation_microseconds(pts_[static_cast<size_t>(frame)], pts_.front(), base.num, base.den);
  }

  const std::string& name_;
  const FilmOptions& options_;
  Decoder decoder_;
  ShotFinder finder_;
  FrameCounts counts_;
  FilmClock clock_;
  SoundFeed sound_;
  MakerContext context_;
  ClipWorks works_;
  FrameWindow window_;
  std::vector<std::thread> makers_;
  std::vector<int64_t> pts_;  // of every frame; at the end, when the last one ends
  int64_t film_end_ = 0;
  std::shared_ptr<const FrameIndex> index_;
  size_t cuts_ = 0;           // those that have closed a shot
  int64_t shot_ = 0, at_ = 0;
  int64_t numbered_ = 0;      // clips of the shots before
  int64_t opened_ = 0, planned_of_shot_ = 0;  // clips of the open shot
  std::deque<Open> open_;     // those that have opened and have no end, ascending
  std::deque<Planned> planned_;  // those that are not told
};

}  // namespace

FilmCut cut_film(ByteSource& film, const std::string& name, const FilmOptions& options) {
  return FilmCutter(film, name, options).run();
}

}  // namespace kinora::video
