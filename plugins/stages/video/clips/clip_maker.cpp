#include "clips/clip_maker.hpp"

#include <memory>
#include <optional>
#include <string>

#include "clips/clip_writer.hpp"
#include "clips/feed.hpp"
#include "clips/spliced_writer.hpp"
#include "media/byte_source.hpp"
#include "media/input.hpp"

namespace kinora::video {
namespace {

// A maker's own decoder of the video. index: null, or the frames by which it may seek.
Decoder own_decoder(const MakerContext& context, const std::shared_ptr<const FrameIndex>& index) {
  DecoderOptions options = context.options.decoder;
  options.threads = context.options.threads;
  if (index) options.index = index;
  return Decoder(context.video, context.name, options);
}

// Passes the frames of the range to `take` in order until it returns false. Returns the first frame that the
// video lacks.
template <class Take>
std::optional<int64_t> pass(Decoder& decoder, const Range& range, const Take& take) {
  decoder.skip_to(range.first);
  for (int64_t at = range.first; at < range.end; ++at) {
    const Frame* frame = decoder.next();
    if (frame == nullptr || frame->index != at) return at;
    if (!take(*frame)) return std::nullopt;
  }
  return std::nullopt;
}

// Reason why there is no clip, appended to its title.
std::string damaged_from(int64_t frame) {
  return " is damaged from frame " + std::to_string(frame) + " on; fetch or re-encode the video";
}

// Builds a clip from its feeds, frame by frame. [owner-thread]
class GrowingClip {
 public:
  explicit GrowingClip(const MakerContext& context) : c_(context) {}

  bool in_trouble() const { return !trouble_.empty(); }
  void is_damaged_from(int64_t frame) { trouble_ = damaged_from(frame); }

  // Ignores feeds after an error.
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
  static constexpr const char* kIncredible =
      " spans over an hour or starts years from zero by its timestamps; remux the video";

  void write(const Feed& feed) {
    if (feed.sound) writer_->add_sound(*feed.sound);
    if (!feed.picture) return;
    if (!fits(*feed.picture, feed.index)) return;
    if (!writer_)
      writer_ = std::make_unique<ClipWriter>(*feed.picture, feed.pts, c_.probe, c_.sound, c_.options);
    writer_->add(*feed.picture, feed.pts);
  }

  bool fits(const AVFrame& picture, int64_t index) {
    const VideoInfo& video = c_.probe.video;
    const PictureForm form = PictureForm::of(picture);
    if (writer_ && form != writer_->form())
      trouble_ = " changes at frame " + std::to_string(index) + " from " + writer_->form().text() + " to " +
                 form.text() + ", which one clip cannot hold; cut it there, as the stages shots.* do";
    if (!c_.options.crop.empty() && (form.width != video.width || form.height != video.height))
      trouble_ = " is " + std::to_string(form.width) + " x " + std::to_string(form.height) + " from frame " +
                 std::to_string(index) + " on, and the fact crop is of pictures of " +
                 std::to_string(video.width) + " x " + std::to_string(video.height) + "; set crop = false";
    return !in_trouble();
  }

  const MakerContext& c_;
  std::unique_ptr<ClipWriter> writer_;
  std::string trouble_;
};

// Thrown if the video's packets differ from its index and headers, or if the clip was abandoned.
struct NotThisWay {};

class CopiedClip {
 public:
  CopiedClip(const MakerContext& context, ClipWorks& works, const ClipWorks::Task& task)
      : c_(context),
        works_(works),
        task_(task),
        index_(*context.options.packets),
        range_(task.how.range),
        copied_(whole_gops(index_, range_)),
        start_(index_.frames->pts[static_cast<size_t>(range_.first)]),
        end_(task.how.pts) {}

  Clip make() {
    if (!credible(start_, end_, c_.probe.video.time_base)) throw NotThisWay();
    Input input(c_.video, c_.name, c_.options.decoder.limits);
    SplicedWriter writer(*input.video()->codecpar, index_.parameters, ends());
    const bool before = encode_end(writer, {range_.first, copied_.first}, index_.end_of({0, copied_.first}));
    if (before) copy_groups(input, writer);
    const bool whole = before && encode_end(writer, {copied_.end, range_.end}, end_) && sample();
    take_sound(whole ? &writer : nullptr);
    if (!whole || !works_.end_of(task_.id)) return std::move(clip_);
    clip_.bytes = writer.finish(end_ - start_);
    clip_.frames = range_.end - range_.first;
    clip_.copied = copied_.end - copied_.first;
    return std::move(clip_);
  }

 private:
  bool fail(const std::string& why) {
    clip_.error = clip_title(c_.name, range_) + why;
    return false;
  }

  // Encoder options for the frames around the copied ones, from the video's headers, since no frame has been
  // decoded yet.
  EncoderOptions ends() const {
    const VideoInfo& video = c_.probe.video;
    auto like = ff::new_frame();
    like->width = video.width;
    like->height = video.height;
    like->format = AV_PIX_FMT_YUV420P;
    like->colorspace = static_cast<AVColorSpace>(video.colour.matrix);
    like->color_primaries = static_cast<AVColorPrimaries>(video.colour.primaries);
    like->color_trc = static_cast<AVColorTransferCharacteristic>(video.colour.transfer);
    EncoderOptions options = encoder_options(*like, {}, c_.probe, c_.sound, c_.options);
    const bool ragged = copied_ != range_;
    options.parameter_set = ragged ? free_id(index_.parameters) : 0;
    if (ragged && options.parameter_set == 0) throw NotThisWay();
    return options;
  }

  // Passes the frames of the part to `take`; false if `take` stops early, with the reason in clip_.
  template <class Take>
  bool decode(const Range& part, const Take& take) {
    Decoder decoder = own_decoder(c_, task_.index);
    bool sound = true;
    const auto missing = pass(decoder, part, [&](const Frame& frame) {
      if (works_.gone(task_.id)) return sound = false;
      if (frame.damaged) return sound = fail(damaged_from(frame.index));
      take(frame);
      return true;
    });
    return missing ? fail(damaged_from(*missing)) : sound;
  }

  bool encode_end(SplicedWriter& writer, const Range& part, int64_t end_pts) {
    if (part.end == part.first) return true;
    if (!decode(part, [&](const Frame& frame) { writer.encode(*frame.picture, frame.pts - start_); }))
      return false;
    writer.end_encoding(end_pts - start_);
    return true;
  }

  void copy_groups(Input& input, SplicedWriter& writer) const {
    int64_t packets = 0, dts = 0;
    for (const Gop& gop : index_.gops) {
      if (gop.first == copied_.first) dts = gop.dts;
      if (gop.first >= copied_.first && gop.end <= copied_.end) packets += gop.packets;
    }
    input.select(input.video());
    if (input.seek(input.video(), dts) < 0) throw NotThisWay();
    const int64_t first_pts = index_.frames->pts[static_cast<size_t>(copied_.first)];
    auto packet = ff::new_packet();
    for (bool found = false; packets > 0;) {
      if (input.read(*packet) < 0 || works_.gone(task_.id)) throw NotThisWay();
      found = found || (packet->pts == first_pts && (packet->flags & AV_PKT_FLAG_KEY) != 0);
      if (packet->stream_index == input.video()->index && found) {
        if (index_.frames->find(packet->pts) < 0) throw NotThisWay();
        writer.copy(*packet, packet->pts - start_);
        --packets;
      }
      av_packet_unref(packet.get());
    }
  }

  bool sample() {
    const auto sampler = new_sampler(c_.options, c_.probe);
    if (!sampler) return true;
    const double base = c_.probe.video.time_base.value();
    try {
      if (!decode(range_, [&](const Frame& frame) {
            sampler->offer(*frame.picture, static_cast<double>(frame.pts - start_) * base);
          }))
        return false;
    } catch (const TooManySamples& e) {
      return fail(std::string(": ") + e.what());
    }
    clip_.samples = sampler->take();
    return true;
  }

  // Null discards the sound.
  void take_sound(SplicedWriter* writer) {
    while (const auto feed = works_.next(task_.id))
      if (writer != nullptr && feed->sound)
        writer->write_audio(pointers(*feed->sound).data(), static_cast<int64_t>(feed->sound->front().size()));
  }

  const MakerContext& c_;
  ClipWorks& works_;
  const ClipWorks::Task& task_;
  const PacketIndex& index_;
  const Range range_, copied_;
  const int64_t start_, end_;  // ticks of the video
  Clip clip_;
};

// Makes a clip from copied whole groups of pictures, ragged ends that the maker decodes, and the fed sound.
// Empty if it cannot be made this way; no sound has been taken then.
std::optional<Clip> make_copied(const MakerContext& context, ClipWorks& works, const ClipWorks::Task& task) {
  try {
    return CopiedClip(context, works, task).make();
  } catch (const NotThisWay&) {
    return std::nullopt;
  }
}

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
  SoundFeed sound(context.video, context.name, context.options.audio, decoder.time_base());
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
  if (task.way == ClipSource::fed) return make_fed(context, works, task);
  if (task.way == ClipSource::alone) return make_alone(context, works, task);
  if (task.way == ClipSource::copied)
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

bool could_copy(const Probe& probe, const TranscodeOptions& o) {
  const VideoInfo& v = probe.video;
  return o.copy && v.codec == "h264" && v.pixel_format == "yuv420p" && v.colour.range != AVCOL_RANGE_JPEG &&
         v.rotation.is_upright() && v.field_order == "progressive" && o.crop.empty() && v.width % 2 == 0 &&
         v.height % 2 == 0 && (o.max_height <= 0 || v.height <= o.max_height);
}

bool may_copy(const Probe& probe, const TranscodeOptions& o) {
  return could_copy(probe, o) && o.packets && !o.packets->gops.empty();
}

}  // namespace kinora::video
