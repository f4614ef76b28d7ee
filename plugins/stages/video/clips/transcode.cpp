#include "clips/transcode.hpp"

#include <algorithm>
#include <thread>

#include "media/audio_reader.hpp"
#include "clips/clip_maker.hpp"
#include "media/media_error.hpp"
#include "shots/shot_clock.hpp"

namespace kinora::video {
namespace {

constexpr int64_t kWorthSeeking = 48;     // frames that decode faster than a seek
constexpr int64_t kWorthCopying = 24;     // frames; fewer are not worth another IDR and parameter set
constexpr int64_t kSoundChunk = 1 << 16;  // samples

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

// The film's frames and sound, handed to the clips that they belong to, in one pass.
class Feeder {
 public:
  Feeder(ByteSource& film, const std::string& name, const std::vector<Range>& ranges,
         const TranscodeOptions& options, const ClipCallback& callback)
      : name_(name),
        ranges_(ranges),
        options_(options),
        callback_(callback),
        decoder_(film, name, decoding(options)) {
    if (options.audio) audio_ = AudioReader::open(film, name);
    const AudioFormat sound = audio_ ? AudioFormat{audio_->rate(), audio_->channels(), 0} : AudioFormat{};
    context_ =
        std::make_unique<MakerContext>(MakerContext{film, name, options_, decoder_.probe(), sound, ranges});
    indexed_ = options.packets != nullptr;
    const bool apart = indexed_ && !overlap(ranges);
    const auto makers =
        static_cast<size_t>(std::clamp<int64_t>(options.parallel, 1, static_cast<int64_t>(ranges.size())));
    board_ = std::make_unique<ClipBoard>(ranges, copied(apart),
                                         ClipBoard::Settings{options.memory, makers, apart});
    for (size_t i = 0; i < makers; ++i) makers_.emplace_back([this] { make_clips(*context_, *board_); });
  }

  ~Feeder() {
    board_->stop();
    for (auto& maker : makers_) maker.join();
  }
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  std::string run() {
    while (done_ < ranges_.size() && step()) tell();
    for (size_t i = done_; i < ranges_.size(); ++i) board_->break_off(i, past_the_end(i));
    while (told_ < ranges_.size()) {
      board_->wait_for_result(std::chrono::milliseconds(100));
      tell();
    }
    return decoder_.damaged();
  }

 private:
  static DecoderOptions decoding(const TranscodeOptions& options) {
    DecoderOptions decoder = options.decoder;
    decoder.threads = options.threads;
    return decoder;
  }

  std::vector<bool> copied(bool apart) const {
    std::vector<bool> out(ranges_.size(), false);
    if (!apart || !may_copy(decoder_.probe(), options_)) return out;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const Range run = whole_gops(*options_.packets, ranges_[i]);
      out[i] = inside_index(ranges_[i]) && (run == ranges_[i] || run.end - run.first >= kWorthCopying);
    }
    return out;
  }

  bool inside_index(const Range& range) const {
    return range.end <= static_cast<int64_t>(options_.packets->frames->pts.size());
  }

  // Results that are there, and whether to go on.
  void tell() {
    if (options_.check) options_.check();
    while (told_ < ranges_.size()) {
      auto result = board_->next_result();
      if (!result) return;
      if (told_ < done_) result->span = spans_[told_];
      callback_(told_++, std::move(*result));
    }
  }

  // One frame further: it ends clips, then begins some, and belongs to those that are open. False at the end
  // of the film.
  bool step() {
    if (done_ == open_end_) at_ = std::max(at_, ranges_[done_].first);
    if (indexed_ && !needs_picture()) return step_by_index();
    if (at_ - decoder_.position() > kWorthSeeking || (indexed_ && at_ > decoder_.position()))
      decoder_.skip_to(at_);
    const Frame* frame = decoder_.next();
    if (frame == nullptr) return end_of_film(decoder_.position(), last_end_);
    if (frame->index < at_) return true;
    last_end_ = frame->pts + frame->duration;
    pass(frame->pts, frame);
    return true;
  }

  // Where no open clip wants the picture, its place in time is all that matters.
  bool step_by_index() {
    const PacketIndex& index = *options_.packets;
    const auto frames = static_cast<int64_t>(index.frames->pts.size());
    if (at_ >= frames) return end_of_film(frames, index.film_end);
    pass(index.frames->pts[static_cast<size_t>(at_)], nullptr);
    return true;
  }

  bool needs_picture() const {
    for (size_t i = done_; i < open_end_; ++i)
      if (ranges_[i].end > at_ && board_->way_of(i) == Way::fed) return true;
    for (size_t i = open_end_; i < ranges_.size() && ranges_[i].first == at_; ++i)
      if (board_->way_of(i) == Way::fed) return true;
    return false;
  }

  void pass(int64_t pts, const Frame* frame) {
    give_sound(pts);
    while (done_ < open_end_ && ranges_[done_].end == at_) end(pts);
    for (; open_end_ < ranges_.size() && ranges_[open_end_].first == at_; ++open_end_) open(pts);
    for (size_t i = done_; frame != nullptr && i < open_end_; ++i) {
      if (board_->way_of(i) != Way::fed) continue;
      Feed feed;
      feed.picture = cropped(*frame->picture, {});
      feed.index = at_;
      feed.pts = pts;
      feed.damaged = frame->damaged;
      give(i, std::move(feed));
    }
    ++at_;
  }

  void open(int64_t pts) {
    if (audio_ && done_ == open_end_) sound_at_ = sample_at(pts);
    board_->begin(open_end_);
    sounded_.push_back(false);
    spans_.push_back({microseconds(pts), 0});
  }

  void end(int64_t pts) {
    spans_[done_].end_us = microseconds(pts);
    board_->end(done_++, pts);
  }

  int64_t microseconds(int64_t pts) const {
    const Rational base = decoder_.time_base();
    const auto& frames = indexed_ ? options_.packets->frames->pts : decoder_.index().pts;
    const int64_t start = frames.empty() || frames.front() == AV_NOPTS_VALUE ? 0 : frames.front();
    return presentation_microseconds(pts, start, base.num, base.den);
  }

  void give(size_t clip, Feed feed) {
    feed.bytes = weight_of(feed);
    board_->feed(clip, std::move(feed), [this] { tell(); });
  }

  int64_t sample_at(int64_t pts) const {
    const Rational base = decoder_.time_base();
    return av_rescale_q(pts, {base.num, base.den}, {1, audio_->rate()});
  }

  // The sound up to `pts`, for the clips that are open. Behind the film's own there is silence, but only for
  // clips that have heard nothing yet.
  void give_sound(int64_t pts) {
    if (!audio_ || done_ == open_end_) return;
    const bool over = audio_->ended();
    for (const int64_t until = sample_at(pts); sound_at_ < until;) {
      const int64_t count = std::min(kSoundChunk, until - sound_at_);
      auto planes = std::make_shared<Planes>();
      audio_->read(sound_at_, count, *planes);
      sound_at_ += count;
      for (size_t i = done_; i < open_end_; ++i) {
        if (over && sounded_[i]) continue;
        sounded_[i] = true;
        Feed feed;
        feed.sound = planes;
        feed.index = at_;
        feed.pts = pts;
        give(i, std::move(feed));
      }
    }
  }

  // The clips that end with the film are whole.
  bool end_of_film(int64_t frames, int64_t end_pts) {
    film_frames_ = frames;
    give_sound(end_pts);
    while (done_ < open_end_ && ranges_[done_].end == at_) end(end_pts);
    return false;
  }

  std::string past_the_end(size_t clip) const {
    const std::string damage = decoder_.damaged();
    return clip_title(name_, ranges_[clip]) + " reaches past the film's end at frame " +
           std::to_string(film_frames_) + (damage.empty() ? "; shorten the range" : " (" + damage + ")");
  }

  const std::string& name_;
  const std::vector<Range>& ranges_;
  const TranscodeOptions& options_;
  const ClipCallback& callback_;
  Decoder decoder_;
  std::unique_ptr<AudioReader> audio_;
  bool indexed_ = false;
  std::unique_ptr<MakerContext> context_;
  std::unique_ptr<ClipBoard> board_;
  std::vector<std::thread> makers_;
  int64_t at_ = 0;                  // index of the next frame
  int64_t film_frames_ = 0;         // known at its end
  size_t done_ = 0, open_end_ = 0;  // clips before done_ have ended, those before open_end_ have begun
  size_t told_ = 0;
  std::vector<ClipSpan> spans_;  // of clips that have begun
  std::vector<bool> sounded_;  // clips that have begun: whether they have got sound
  int64_t sound_at_ = 0;       // the next sample to read, on the film's clock
  int64_t last_end_ = 0;       // ticks: end of the last frame seen
};

}  // namespace

std::string transcode_clips(ByteSource& film, const std::string& name, const std::vector<Range>& ranges,
                            const TranscodeOptions& options, const ClipCallback& callback) {
  validate(ranges, name);
  TranscodeOptions given = options;
  if (given.packets) given.decoder.index = given.packets->frames;
  return Feeder(film, name, ranges, given, callback).run();
}

}  // namespace kinora::video
