#include "media/fragment_writer.hpp"

#include <numeric>
#include <utility>

#include "media/ffmpeg.hpp"
#include "media/frame_encoder.hpp"
#include "media/input.hpp"
#include "media/mp4_writer.hpp"
#include "media/probe.hpp"

namespace kinora::video {
namespace {

// x264's number for "no limit".
constexpr int kUnlimited = 1 << 30;

EncoderOptions for_fragments(EncoderOptions options) {
  if (options.audio.rate > 0)
    throw MediaError("writing fragments: sound is not supported; leave EncoderOptions::audio out");
  // The muxer doubles the rate's numerator until it is a fine clock, so a frame is a whole number of ticks.
  if (const int common = std::gcd(options.fps.num, options.fps.den); common > 1)
    options.fps = {options.fps.num / common, options.fps.den / common};
  options.time_base = {0, 1};
  options.key_interval = kUnlimited;
  options.low_latency = true;
  return options;
}

// Finds the sequence parameter set in an encoder's header with start codes and returns its profile, constraints and
// level.
std::string codec_of(std::span<const uint8_t> header) {
  constexpr int kSequenceSet = 7;
  for (size_t i = 0; i + 6 < header.size(); ++i) {
    if (header[i] != 0 || header[i + 1] != 0 || header[i + 2] != 1 || (header[i + 3] & 31) != kSequenceSet)
      continue;
    constexpr char kDigits[] = "0123456789abcdef";
    std::string out = "avc1.";
    for (const uint8_t byte : header.subspan(i + 4, 3)) {
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
    return out;
  }
  throw MediaError(
      "writing fragments: the encoder's header has no sequence parameter set; set codec to libx264");
}

}  // namespace

struct FragmentWriter::State {
  State(const EncoderOptions& options, Sink to)
      : frames(options,
               [this](AVPacket& packet) {
                 ++packets;
                 writer.write(packet, *stream, frames.time_base());
               }),
        writer(options.metadata),
        sink(std::move(to)) {
    stream = writer.add(frames.context());
    writer.start_fragments();
    init = writer.take();
    const AVCodecContext& encoder = frames.context();
    mime = "video/mp4; codecs=\"" +
           codec_of({encoder.extradata, static_cast<size_t>(encoder.extradata_size)}) + "\"";
  }

  FrameEncoder frames;
  Mp4Writer writer;
  Sink sink;
  AVStream* stream = nullptr;
  std::vector<uint8_t> init;  // until it is given to the sink
  std::string mime;
  int64_t packets = 0;  // of the current fragment
  bool is_finished = false;
};

FragmentWriter::FragmentWriter(EncoderOptions options, Sink sink)
    : state_(std::make_unique<State>(for_fragments(std::move(options)), std::move(sink))) {}
FragmentWriter::~FragmentWriter() = default;
FragmentWriter::FragmentWriter(FragmentWriter&&) noexcept = default;
FragmentWriter& FragmentWriter::operator=(FragmentWriter&&) noexcept = default;

const std::string& FragmentWriter::mime() const { return state_->mime; }

void FragmentWriter::add(const uint8_t* frames, int64_t count) {
  State& s = *state_;
  if (count < 1) throw MediaError("writing fragments: a fragment without frames; give at least one");
  if (s.is_finished)
    throw MediaError("writing fragments: frames behind the end; begin another video for them");
  const EncoderOptions& options = s.frames.options();
  const int64_t bytes = int64_t{3} * options.width * options.height;
  s.packets = 0;
  s.frames.force_key();
  for (int64_t i = 0; i < count; ++i) s.frames.write_rgb(frames + i * bytes);
  s.frames.end_frame();
  if (s.packets != count)
    throw MediaError("writing fragments: the encoder gave " + std::to_string(s.packets) + " of " +
                     std::to_string(count) + " frames at once; set codec to libx264");
  const std::vector<uint8_t> fragment = s.writer.end_fragment();
  if (!s.init.empty()) s.sink(std::exchange(s.init, {}), Kind::init);
  s.sink(fragment, Kind::fragment);
}

void FragmentWriter::finish() {
  State& s = *state_;
  s.frames.finish(-1);
  s.writer.finish();
  s.is_finished = true;
}

namespace {

// Into an empty writer; returns what its finish() does.
std::vector<uint8_t> copy_fragments(ByteSource& video, const std::string& name, Mp4Writer& writer) {
  Input input(video, name, Limits{});
  if (input.video() == nullptr) throw MediaError(name + ": no video stream; give a fragmented video");
  if (const std::string cut = missing_bytes(video); !cut.empty())
    throw MediaError(name + ": not rewritten, because it is " + cut);
  const AVStream& from = *input.video();
  AVStream* to = writer.add(*from.codecpar, from.time_base);
  to->sample_aspect_ratio = from.sample_aspect_ratio;
  writer.start(from.time_base.den);
  const auto packet = ff::new_packet();
  int code = 0;
  int64_t count = 0, last = 0, frame = describe(input, video, name).video.nominal_frame();
  while ((code = input.read(*packet)) >= 0) {
    if (packet->stream_index == from.index) {
      if ((packet->flags & AV_PKT_FLAG_CORRUPT) != 0) throw MediaError(name + ": a packet is incomplete");
      // FFmpeg guesses durations in fragments; the rate is constant.
      if (count++ > 0) frame = packet->dts - last;
      packet->duration = frame;
      last = packet->dts;
      writer.write(*packet, *to, from.time_base);
    }
    av_packet_unref(packet.get());
  }
  if (code != AVERROR_EOF) throw MediaError(name + ": reading stopped: " + ff::error_text(code));
  if (count == 0) throw MediaError(name + ": no frames; give a video with at least one fragment");
  return writer.finish();
}

}  // namespace

std::vector<uint8_t> remux_fragments(ByteSource& video, const std::string& name,
                                     const std::vector<std::pair<std::string, std::string>>& metadata) {
  Mp4Writer writer(metadata);
  return copy_fragments(video, name, writer);
}

void remux_fragments(ByteSource& video, const std::string& name,
                     const std::vector<std::pair<std::string, std::string>>& metadata,
                     const std::filesystem::path& result) {
  Mp4Writer writer(metadata, result);
  copy_fragments(video, name, writer);
}

}  // namespace kinora::video
