#include "clips/growing_maker.hpp"

#include "clips/clip_maker.hpp"
#include "clips/sound_feed.hpp"

namespace kinora::video {
namespace {

// A clip from what happens to it, frame after frame.
class Growing {
 public:
  explicit Growing(const GrowingContext& context) : c_(context) {}

  bool in_trouble() const { return !trouble_.empty(); }
  void is_damaged_from(int64_t index) { trouble_ = damaged_from(index); }

  void take(const Feed& feed) {
    if (in_trouble()) return;
    if (feed.damaged) is_damaged_from(feed.index);
    if (writer_ && !writer_->credible(feed.pts)) trouble_ = kIncredible;
    try {
      if (!in_trouble()) write(feed);
    } catch (const TooManySamples& e) {
      trouble_ = std::string(": ") + e.what();
    }
    if (in_trouble()) writer_.reset();
  }

  Clip finish(const ClipWorks::Ended& end) {
    if (!in_trouble() && (!writer_ || !writer_->credible(end.pts))) trouble_ = kIncredible;
    if (!in_trouble()) return writer_->finish(end.pts);
    Clip clip;
    clip.error = clip_title(c_.name, end.range) + trouble_;
    return clip;
  }

 private:
  void write(const Feed& feed) {
    if (feed.sound) writer_->add_sound(*feed.sound);
    if (!feed.picture) return;
    if (!writer_) writer_ = std::make_unique<ClipWriter>(*feed.picture, feed.pts, c_.probe, c_.sound, c_.options);
    writer_->add(*feed.picture, feed.pts);
  }

  const GrowingContext& c_;
  std::unique_ptr<ClipWriter> writer_;
  std::string trouble_;
};

Clip make_fed(const GrowingContext& context, ClipWorks& works, ClipWorks::Id id) {
  Growing clip(context);
  while (const auto feed = works.next(id)) clip.take(*feed);
  const auto end = works.end_of(id);
  return end ? clip.finish(*end) : Clip{};
}

// By a decoder and a reader of sound of its own.
class Alone {
 public:
  Alone(const GrowingContext& context, const ClipWorks::Task& task)
      : range_(task.how.range),
        decoder_(context.film, context.name, decoding(context, task)),
        sound_(context.film, context.name, context.options.audio, decoder_.time_base()),
        clip_(context) {}

  Clip make(ClipWorks& works, const ClipWorks::Task& task) {
    decoder_.skip_to(range_.first);
    for (int64_t at = range_.first; at < range_.end && !clip_.in_trouble(); ++at) {
      if (works.gone(task.id)) return {};
      const Frame* frame = decoder_.next();
      if (frame == nullptr || frame->index != at) {
        clip_.is_damaged_from(at);
        break;
      }
      works.count_decoded(1);
      take(*frame);
    }
    hear(task.how.pts, range_.end);
    return clip_.finish(task.how);
  }

 private:
  static DecoderOptions decoding(const GrowingContext& context, const ClipWorks::Task& task) {
    DecoderOptions options = context.options.decoder;
    options.threads = context.options.threads;
    options.index = task.index;
    return options;
  }

  void take(const Frame& frame) {
    if (frame.index == range_.first) sound_.start(frame.pts);
    hear(frame.pts, frame.index);
    Feed feed;
    feed.picture = cropped(*frame.picture, {});
    feed.index = frame.index;
    feed.pts = frame.pts;
    feed.damaged = frame.damaged;
    clip_.take(feed);
  }

  void hear(int64_t pts, int64_t index) {
    if (clip_.in_trouble()) return;
    sound_.until(pts, [&](const std::shared_ptr<const Planes>& planes, bool over) {
      if (over && heard_) return;
      heard_ = true;
      Feed feed;
      feed.sound = planes;
      feed.index = index;
      feed.pts = pts;
      clip_.take(feed);
    });
  }

  Range range_;
  Decoder decoder_;
  SoundFeed sound_;
  Growing clip_;
  bool heard_ = false;
};

}  // namespace

void make_growing(const GrowingContext& context, ClipWorks& works) {
  while (const auto task = works.claim()) {
    Clip clip;
    std::exception_ptr error;
    try {
      clip = task->alone ? Alone(context, *task).make(works, *task) : make_fed(context, works, task->id);
    } catch (...) {
      error = std::current_exception();
    }
    works.done(task->id, std::move(clip), std::move(error));
  }
}

}  // namespace kinora::video
