#include "clips/clip_maker.hpp"

#include "clips/copied_clip.hpp"
#include "clips/growing_clip.hpp"
#include "clips/own_frames.hpp"
#include "clips/sound_feed.hpp"

namespace kinora::video {
namespace {

using Task = ClipWorks::Task;

// Consumes the remaining feeds and ends the clip.
Clip finish_fed(GrowingClip& clip, ClipWorks& works, ClipWorks::Id id) {
  while (const auto feed = works.next(id)) clip.take(*feed);
  const auto end = works.end_of(id);
  return end ? clip.finish(*end) : Clip{};
}

Clip make_fed(const MakerContext& context, ClipWorks& works, const Task& task) {
  GrowingClip clip(context);
  return finish_fed(clip, works, task.id);
}

// before(frame) is called before each frame.
template <class Before>
void decode_into(GrowingClip& clip, Decoder& decoder, ClipWorks& works, const Task& task,
                 const Before& before) {
  const auto missing = pass(decoder, task.how.range, [&](const Frame& frame) {
    if (works.gone(task.id)) return false;
    before(frame);
    clip.take(Feed::of_picture(*frame.picture, frame.index, frame.pts, frame.damaged));
    return !clip.in_trouble();
  });
  if (missing && !clip.in_trouble()) clip.is_damaged_from(*missing);
}

Clip make_decoded(const MakerContext& context, ClipWorks& works, const Task& task) {
  GrowingClip clip(context);
  Decoder decoder = own_decoder(context, task.index);
  decode_into(clip, decoder, works, task, [](const Frame&) {});
  return finish_fed(clip, works, task.id);
}

Clip make_alone(const MakerContext& context, ClipWorks& works, const Task& task) {
  GrowingClip clip(context);
  Decoder decoder = own_decoder(context, task.index);
  SoundFeed sound(context.film, context.name, context.options.audio, decoder.time_base());
  const Range& range = task.how.range;
  bool heard = false;
  const auto hear = [&](int64_t pts, int64_t index) {
    if (clip.in_trouble()) return;
    sound.until(pts, [&](const std::shared_ptr<const Planes>& planes, bool over) {
      if (over && heard) return;
      heard = true;
      clip.take(Feed::of_sound(planes, index, pts));
    });
  };
  decode_into(clip, decoder, works, task, [&](const Frame& frame) {
    works.count_decoded(1);
    if (frame.index == range.first) sound.start(frame.pts);
    hear(frame.pts, frame.index);
  });
  if (works.gone(task.id)) return {};
  hear(task.how.pts, range.end);
  return clip.finish(task.how);
}

Clip make(const MakerContext& context, ClipWorks& works, const Task& task) {
  if (task.way == Way::fed) return make_fed(context, works, task);
  if (task.way == Way::alone) return make_alone(context, works, task);
  if (task.way == Way::copied)
    if (auto clip = make_copied(context, works, task)) return std::move(*clip);
  return make_decoded(context, works, task);
}

}  // namespace

std::string clip_title(const std::string& name, const Range& range) {
  return name + ": clip [" + std::to_string(range.first) + ", " + std::to_string(range.end) + ")";
}

void make_clips(const MakerContext& context, ClipWorks& works) {
  while (const auto task = works.claim()) {
    Clip clip;
    std::exception_ptr error;
    try {
      clip = make(context, works, *task);
    } catch (...) {
      error = std::current_exception();
    }
    works.done(task->id, std::move(clip), std::move(error));
  }
}

}  // namespace kinora::video
