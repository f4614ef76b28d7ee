#include "encoder.hpp"

#include <algorithm>
#include <deque>

#include "aac_track.hpp"
#include "convert.hpp"
#include "media_error.hpp"
#include "mp4_writer.hpp"
#include "rotate.hpp"
#include "x264.hpp"

namespace kinora::video {
namespace {

void tag_rotation(AVStream& stream, int degrees) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
  AVPacketSideData* side =
      av_packet_side_data_new(&stream.codecpar->coded_side_data, &stream.codecpar->nb_coded_side_data,
                              AV_PKT_DATA_DISPLAYMATRIX, 9 * sizeof(int32_t), 0);
  uint8_t* matrix = side != nullptr ? side->data : nullptr;
#else
  uint8_t* matrix = av_stream_new_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, 9 * sizeof(int32_t));
#endif
  if (matrix == nullptr) throw std::bad_alloc();
  av_display_rotation_set(reinterpret_cast<int32_t*>(matrix), degrees);
}

}  // namespace

struct Encoder::State {
  explicit State(EncoderOptions wanted)
      : options(std::move(wanted)), writer((validate_h264(options), options.metadata)) {
    width = std::max(2, options.width & ~1);
    height = std::max(2, options.height & ~1);
    time_base = options.time_base.num > 0 ? AVRational{options.time_base.num, options.time_base.den}
                                          : AVRational{options.fps.den, options.fps.num};
    encoder = open_x264(options, width, height, time_base);
    stream = writer.add(*encoder);
    if (options.rotation_tag != 0) tag_rotation(*stream, options.rotation_tag);
    if (options.audio.rate > 0) audio = std::make_unique<AacTrack>(options.audio, writer);
    writer.start(audio ? audio->rate() : std::max(1000, time_base.den));
  }

  int64_t nominal_frame() const {
    const AVRational frame{options.fps.den, options.fps.num};
    return std::max<int64_t>(1, av_rescale_q(1, frame, time_base));
  }

  bool fits(const AVFrame& f) const {
    return options.turn == 0 && f.format == AV_PIX_FMT_YUV420P && range_of(f) == AVCOL_RANGE_MPEG &&
           (f.width & ~1) == width && (f.height & ~1) == height && matrix_of(f) == options.colour.matrix;
  }

  // The frame as the file holds it, in `held`.
  void hold(const AVFrame& frame, int64_t pts) {
    held = ff::new_frame();
    if (fits(frame)) {
      if (av_frame_ref(held.get(), &frame) < 0) throw std::bad_alloc();
      av_frame_remove_side_data(held.get(), AV_FRAME_DATA_A53_CC);
      held->width = width;
      held->height = height;
    } else {
      hold_converted(frame);
    }
    held->pts = pts;
    held->pict_type = AV_PICTURE_TYPE_NONE;  // the encoder chooses its own key frames
  }

  void hold_converted(const AVFrame& frame) {
    const bool turned = options.turn % 180 != 0;
    const int w = turned ? height : width, h = turned ? width : height;
    auto scaled = allocate_picture(w, h, AV_PIX_FMT_YUV420P);
    scaled->colorspace = static_cast<AVColorSpace>(options.colour.matrix);
    scaled->color_range = AVCOL_RANGE_MPEG;
    if (!view) view = ff::new_frame();
    av_frame_unref(view.get());
    if (av_frame_ref(view.get(), &frame) < 0) throw std::bad_alloc();
    view->colorspace = matrix_of(frame);
    if (frame.width == w + 1) view->width = w;  // an odd column or row is cut off, not squeezed in
    if (frame.height == h + 1) view->height = h;
    converter.convert(*view, *scaled, Filter::automatic);
    if (options.turn == 0) {
      held = std::move(scaled);
      return;
    }
    held = allocate_picture(width, height, AV_PIX_FMT_YUV420P);
    for (int plane = 0; plane < 3; ++plane) {
      const int shift = plane == 0 ? 0 : 1;
      rotate_plane({scaled->data[plane], scaled->linesize[plane]}, w >> shift, h >> shift, 1, options.turn,
                   {held->data[plane], held->linesize[plane]});
    }
  }

  // A frame is sent when its end is known, because its packet carries its duration.
  void send_held(int64_t end_pts) {
    if (end_pts <= held->pts) {
      throw MediaError("encoding h264: frame " + std::to_string(frames) + " ends at tick " +
                       std::to_string(end_pts) + ", not after its start; give increasing timestamps");
    }
    shown.push_back({held->pts, end_pts - held->pts});
    check_h264(avcodec_send_frame(encoder.get(), held.get()), "frame " + std::to_string(frames));
    ++frames;
    last_end = end_pts;
    held.reset();
    drain();
  }

  void drain() {
    int code = 0;
    while ((code = avcodec_receive_packet(encoder.get(), packet.get())) >= 0) {
      const auto at =
          std::find_if(shown.begin(), shown.end(), [&](const Shown& s) { return s.pts == packet->pts; });
      if (at != shown.end()) {
        packet->duration = at->duration;
        shown.erase(at);
      }
      writer.write(*packet, *stream, time_base);
    }
    if (code != AVERROR(EAGAIN) && code != AVERROR_EOF) check_h264(code, "a frame");
  }

  struct Shown {
    int64_t pts, duration;
  };

  EncoderOptions options;
  Mp4Writer writer;
  int width = 0, height = 0;  // even
  AVRational time_base{};
  ff::Owned<AVCodecContext> encoder;
  AVStream* stream = nullptr;
  std::unique_ptr<AacTrack> audio;
  PixelConverter converter;
  ff::Owned<AVFrame> held, view;
  ff::Owned<AVPacket> packet = ff::new_packet();
  std::deque<Shown> shown;  // frames inside the encoder
  int64_t frames = 0, last_end = 0;
};

Encoder::Encoder(EncoderOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

void Encoder::write_rgb(const uint8_t* rgb) {
  State& s = *state_;
  const auto frame = picture_of_rgb(rgb, s.options.width, s.options.height);
  const int64_t next = s.held ? s.frames + 1 : s.frames;
  write(*frame, av_rescale_q(next, {s.options.fps.den, s.options.fps.num}, s.time_base));
}

void Encoder::write(const AVFrame& frame, int64_t pts) {
  State& s = *state_;
  if (s.held) s.send_held(pts);
  s.hold(frame, pts);
}

void Encoder::write_audio(const float* const* planes, int64_t count) {
  if (!state_->audio) throw MediaError("encoding aac: no audio was announced; set EncoderOptions::audio");
  state_->audio->write(planes, count);
}

std::vector<uint8_t> Encoder::finish(int64_t end_pts) {
  State& s = *state_;
  if (!s.held) throw MediaError("encoding h264: no frame was given; write at least one");
  s.send_held(end_pts >= 0 ? end_pts : s.held->pts + s.nominal_frame());
  check_h264(avcodec_send_frame(s.encoder.get(), nullptr), "the last frame");
  s.drain();
  if (s.audio) s.audio->finish();
  return s.writer.finish();
}

}  // namespace kinora::video
