#include "clips/clip_maker.hpp"

#include "media/input.hpp"
#include "media/media_error.hpp"
#include "clips/spliced_writer.hpp"

namespace kinora::video {
namespace {

// The clip cannot be made the way that was tried; another may do.
struct NotThisWay {};

class ClipMaker {
 public:
  ClipMaker(const MakerContext& context, ClipBoard& board, size_t clip)
      : c_(context), board_(board), clip_(clip), range_(context.ranges[clip]) {}

  Clip make(Way way) {
    try {
      if (way == Way::fed) return make_fed();
      if (way == Way::copied) {
        try {
          return make_copied();
        } catch (const NotThisWay&) {
        }
      }
      return make_alone();
    } catch (const TooManySamples& e) {
      ignore_feeds();
      return failed(std::string(": ") + e.what());
    }
  }

 private:
  Clip failed(const std::string& what) const {
    Clip clip;
    clip.error = clip_title(c_.name, range_) + what;
    return clip;
  }
  Clip incredible() const { return failed(kIncredible); }
  Clip damaged(int64_t index) const { return failed(damaged_from(index)); }

  // Frames and sound as they come from the feeder.
  Clip make_fed() {
    std::unique_ptr<ClipWriter> writer;
    Clip trouble;
    while (auto feed = board_.next(clip_)) {
      if (!trouble.error.empty()) continue;
      if (feed->damaged) trouble = damaged(feed->index);
      if (writer && !writer->credible(feed->pts)) trouble = incredible();
      if (!trouble.error.empty()) {
        writer.reset();
        continue;
      }
      if (feed->sound) writer->add_sound(*feed->sound);
      if (!feed->picture) continue;
      if (!writer)
        writer = std::make_unique<ClipWriter>(*feed->picture, feed->pts, c_.probe, c_.sound, c_.options);
      writer->add(*feed->picture, feed->pts);
    }
    const auto end = board_.end_of(clip_);
    if (!trouble.error.empty() || !end) return trouble;
    if (!writer || !writer->credible(*end)) return incredible();
    return writer->finish(*end);
  }

  Decoder open_decoder() const {
    DecoderOptions options = c_.options.decoder;
    options.threads = c_.options.threads;
    return Decoder(c_.film, c_.name, options);
  }

  // Frames [first, end) of the film in turn; false at one that is damaged or missing, with `trouble` filled.
  template <class Take>
  bool decode(Decoder& decoder, int64_t first, int64_t end, Clip& trouble, const Take& take) const {
    decoder.skip_to(first);
    for (int64_t i = first; i < end; ++i) {
      if (board_.stopped()) return false;
      const Frame* frame = decoder.next();
      if (frame == nullptr || frame->index != i || frame->damaged) {
        trouble = damaged(i);
        return false;
      }
      take(*frame);
    }
    return true;
  }

  template <class Writer>
  void add_fed_sound(Writer& writer) {
    while (auto feed = board_.next(clip_))
      if (feed->sound) writer.add_sound(*feed->sound);
  }
  void ignore_feeds() {
    while (board_.next(clip_)) {
    }
  }

  // Frames by a decoder of its own; sound from the feeder.
  Clip make_alone() {
    Decoder decoder = open_decoder();
    std::unique_ptr<ClipWriter> writer;
    Clip trouble;
    const bool whole = decode(decoder, range_.first, range_.end, trouble, [&](const Frame& frame) {
      if (!writer)
        writer = std::make_unique<ClipWriter>(*frame.picture, frame.pts, c_.probe, c_.sound, c_.options);
      if (writer->credible(frame.pts)) writer->add(*frame.picture, frame.pts);
    });
    if (whole) add_fed_sound(*writer);
    ignore_feeds();
    const auto end = board_.end_of(clip_);
    if (!whole || !end) return trouble;
    return writer->credible(*end) ? writer->finish(*end) : incredible();
  }

  // Whole groups as they are, ragged ends by a decoder of its own, sound from the feeder.
  Clip make_copied() {
    const PacketIndex& index = *c_.options.packets;
    const Range copied = whole_gops(index, range_);
    const int64_t start = index.frames->pts[static_cast<size_t>(range_.first)], end = index.end_of(range_);
    if (!credible(start, end, c_.probe.video.time_base)) throw NotThisWay();
    Input input(c_.film, c_.name, c_.options.decoder.limits);
    SplicedWriter writer(*input.video()->codecpar, index.parameters, ends(copied));
    Clip clip;
    const bool before =
        encode_end(writer, {range_.first, copied.first}, start, index.end_of({0, copied.first}), clip);
    if (before) copy_groups(input, writer, copied, start);
    if (!before || !encode_end(writer, {copied.end, range_.end}, start, end, clip) || !sample(clip)) {
      ignore_feeds();
      return clip;
    }
    while (auto feed = board_.next(clip_))
      if (feed->sound)
        writer.write_audio(pointers(*feed->sound).data(), static_cast<int64_t>(feed->sound->front().size()));
    if (!board_.end_of(clip_)) return clip;
    clip.bytes = writer.finish(end - start);
    clip.frames = range_.end - range_.first;
    clip.copied = copied.end - copied.first;
    return clip;
  }

  // For the frames around what is copied: as the film says of itself, for no frame has been seen yet.
  EncoderOptions ends(const Range& copied) const {
    const VideoInfo& video = c_.probe.video;
    auto like = ff::new_frame();
    like->width = video.width;
    like->height = video.height;
    like->format = AV_PIX_FMT_YUV420P;
    like->colorspace = static_cast<AVColorSpace>(video.colour.matrix);
    like->color_primaries = static_cast<AVColorPrimaries>(video.colour.primaries);
    like->color_trc = static_cast<AVColorTransferCharacteristic>(video.colour.transfer);
    EncoderOptions options = encoder_options(*like, {}, c_.probe, c_.sound, c_.options);
    const bool ragged = copied.first != range_.first || copied.end != range_.end;
    options.parameter_set = ragged ? free_id(c_.options.packets->parameters) : 0;
    if (ragged && options.parameter_set == 0) throw NotThisWay();
    return options;
  }

  bool encode_end(SplicedWriter& writer, const Range& part, int64_t start, int64_t end_pts,
                  Clip& trouble) const {
    if (part.end == part.first) return true;
    Decoder decoder = open_decoder();
    if (!decode(decoder, part.first, part.end, trouble,
                [&](const Frame& frame) { writer.encode(*frame.picture, frame.pts - start); }))
      return false;
    writer.end_encoding(end_pts - start);
    return true;
  }

  void copy_groups(Input& input, SplicedWriter& writer, const Range& copied, int64_t start) const {
    const PacketIndex& index = *c_.options.packets;
    int64_t packets = 0, dts = 0;
    for (const Gop& gop : index.gops) {
      if (gop.first == copied.first) dts = gop.dts;
      if (gop.first >= copied.first && gop.end <= copied.end) packets += gop.packets;
    }
    input.select(input.video());
    if (input.seek(input.video(), dts) < 0) throw NotThisWay();
    const int64_t first_pts = index.frames->pts[static_cast<size_t>(copied.first)];
    auto packet = ff::new_packet();
    for (bool found = false; packets > 0;) {
      if (input.read(*packet) < 0) throw NotThisWay();
      found = found || (packet->pts == first_pts && (packet->flags & AV_PKT_FLAG_KEY) != 0);
      if (packet->stream_index == input.video()->index && found) {
        if (index.frames->find(packet->pts) < 0) throw NotThisWay();
        writer.copy(*packet, packet->pts - start);
        --packets;
      }
      av_packet_unref(packet.get());
    }
  }

  bool sample(Clip& clip) const {
    const auto sampler = new_sampler(c_.options, c_.probe);
    if (!sampler) return true;
    Decoder decoder = open_decoder();
    const double base = c_.probe.video.time_base.value();
    int64_t start = 0;
    const bool whole = decode(decoder, range_.first, range_.end, clip, [&](const Frame& frame) {
      if (frame.index == range_.first) start = frame.pts;
      sampler->offer(*frame.picture, static_cast<double>(frame.pts - start) * base);
    });
    clip.samples = sampler->take();
    return whole;
  }

  const MakerContext& c_;
  ClipBoard& board_;
  size_t clip_;
  Range range_;
};

}  // namespace

std::string clip_title(const std::string& name, const Range& range) {
  return name + ": clip [" + std::to_string(range.first) + ", " + std::to_string(range.end) + ")";
}

std::string damaged_from(int64_t frame) {
  return " is damaged from frame " + std::to_string(frame) + " on; fetch or re-encode the film";
}

const char* const kIncredible = " spans over an hour or starts years from zero by its timestamps; remux the film";

bool could_copy(const Probe& film, const TranscodeOptions& o) {
  const VideoInfo& v = film.video;
  return o.copy && v.codec == "h264" &&
         v.pixel_format == "yuv420p" && v.colour.range != AVCOL_RANGE_JPEG && v.rotation == 0 &&
         v.field_order == "progressive" && o.crop.empty() && v.width % 2 == 0 && v.height % 2 == 0 &&
         (o.max_height <= 0 || v.height <= o.max_height);
}

bool may_copy(const Probe& film, const TranscodeOptions& o) {
  return could_copy(film, o) && o.packets && !o.packets->gops.empty();
}

void make_clips(const MakerContext& context, ClipBoard& board) {
  try {
    Way way = Way::fed;
    while (const auto clip = board.claim(way)) board.done(*clip, ClipMaker(context, board, *clip).make(way));
  } catch (...) {
    board.fail(std::current_exception());
  }
}

}  // namespace kinora::video
