#include "media/encoder.hpp"

#include <algorithm>

#include "media/aac_track.hpp"
#include "media/byte_source.hpp"
#include "media/frame_encoder.hpp"
#include "media/h264_encoders.hpp"
#include "media/mp4_writer.hpp"

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

bool nvenc_opens() {
  static const bool opens = [] {
    constexpr int kSide = 256;
    ff::silence_library_log();
    std::string why;
    return open_nvenc({}, kSide, kSide, {1, 24}, why) != nullptr;
  }();
  return opens;
}

struct Encoder::State {
  explicit State(const EncoderOptions& options)
      : frames(options, [this](AVPacket& packet) { writer.write(packet, *stream, frames.time_base()); }),
        writer(options.metadata) {
    stream = writer.add(frames.context());
    if (options.rotation_tag != 0) tag_rotation(*stream, options.rotation_tag);
    if (options.audio.rate > 0) audio = std::make_unique<AacTrack>(options.audio, writer);
    writer.start(audio ? audio->rate() : std::max(1000, frames.time_base().den));
  }

  FrameEncoder frames;
  Mp4Writer writer;
  AVStream* stream = nullptr;
  std::unique_ptr<AacTrack> audio;
};

Encoder::Encoder(EncoderOptions options) : state_(std::make_unique<State>(options)) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

void Encoder::write_rgb(const uint8_t* rgb) { state_->frames.write_rgb(rgb); }
void Encoder::write(const AVFrame& frame, int64_t pts) { state_->frames.write(frame, pts); }

void Encoder::write_audio(const float* const* planes, int64_t count) {
  if (!state_->audio)
    throw MediaError("encoding aac: the encoder has no audio track; set EncoderOptions::audio");
  state_->audio->write(planes, count);
}

std::vector<uint8_t> Encoder::finish(int64_t end_pts) {
  state_->frames.finish(end_pts);
  if (state_->audio) state_->audio->finish();
  return state_->writer.finish();
}

}  // namespace kinora::video
