#include "media/audio_reader.hpp"

#include <algorithm>

#include "media/byte_source.hpp"
#include "media/input.hpp"
#include "media/probe.hpp"

namespace kinora::video {
namespace {

constexpr int kMaxErrors = 64;         // undecodable packets in a row; after that the rest is silent
constexpr int kDriftsPerSecond = 100;  // the clock is followed if it is off by more than 1/100 s
constexpr int64_t kLargest = int64_t{1} << 60;
constexpr int kMaxRate = 768'000;  // samples per second; a header with a higher rate is damaged

int kept_channels(int channels) { return (channels >= 1 && channels <= 6) || channels == 8 ? channels : 2; }

}  // namespace

struct AudioReader::State {
  State(ByteSource& source, const std::string& name) : input(source, name, Limits{}) {}

  void open_stream(const std::string& name) {
    input.select(input.audio());
    codec = open_decoder(*input.audio(), name, 1, Limits{});
    rate = input.audio()->codecpar->sample_rate;
    av_channel_layout_default(&layout, kept_channels(input.audio()->codecpar->ch_layout.nb_channels));
    chunk.resize(static_cast<size_t>(layout.nb_channels));
  }

  // Decodes the next samples into `chunk`; false at the end of the sound.
  bool next_chunk() {
    while (!ended) {
      const int code = avcodec_receive_frame(codec.get(), frame.get());
      if (code >= 0) {
        errors = 0;
        if (take()) return true;
      } else if (code == AVERROR(EAGAIN)) {
        feed();
      } else if (code == AVERROR_EOF || ++errors >= kMaxErrors) {
        ended = true;
      }
    }
    return false;
  }

  void feed() {
    const int code = input.read(*packet);
    int sent = 0;
    if (code < 0) {
      ended = std::exchange(draining, true);
      sent = avcodec_send_packet(codec.get(), nullptr);
    } else if (packet->stream_index == input.audio()->index) {
      sent = avcodec_send_packet(codec.get(), packet.get());
    }
    av_packet_unref(packet.get());
    if (sent < 0 && ++errors >= kMaxErrors) ended = true;
  }

  // Converts the decoded frame to float planes in `chunk`, placed on the clock. False if it has no samples.
  bool take() {
    if (frame->nb_samples <= 0 || frame->sample_rate <= 0 || !prepare_converter()) return false;
    const int room = swr_get_out_samples(converter.get(), frame->nb_samples);
    if (room <= 0) return false;
    std::vector<uint8_t*> planes(chunk.size());
    for (size_t c = 0; c < chunk.size(); ++c) {
      chunk[c].resize(static_cast<size_t>(room));
      planes[c] = reinterpret_cast<uint8_t*>(chunk[c].data());
    }
    chunk_count = swr_convert(converter.get(), planes.data(), room,
                              const_cast<const uint8_t**>(frame->extended_data), frame->nb_samples);
    if (chunk_count <= 0) return false;
    place();
    return true;
  }

  void place() {
    const int64_t pts = frame->best_effort_timestamp;
    if (pts > -kLargest && pts < kLargest) {
      const int64_t clock =
          std::clamp(av_rescale_q(pts, input.audio()->time_base, {1, rate}), -kLargest, kLargest);
      const int64_t drift = clock - next_start;
      if (!placed || drift > rate / kDriftsPerSecond || drift < -rate / kDriftsPerSecond) next_start = clock;
    }
    placed = true;
    chunk_start = next_start;
    next_start += chunk_count;
  }

  // Prepares conversion from the frame's sample format, layout and rate, which may change in damaged or
  // joined streams.
  bool prepare_converter() {
    if (converter && frame->format == from_format && frame->sample_rate == from_rate &&
        frame->ch_layout.nb_channels == from_channels) {
      return true;
    }
    AVChannelLayout from{};
    if (frame->ch_layout.order == AV_CHANNEL_ORDER_UNSPEC) {
      av_channel_layout_default(&from, frame->ch_layout.nb_channels);
    } else if (av_channel_layout_copy(&from, &frame->ch_layout) < 0) {
      throw std::bad_alloc();
    }
    SwrContext* swr = nullptr;
    const int code =
        swr_alloc_set_opts2(&swr, &layout, AV_SAMPLE_FMT_FLTP, rate, &from,
                            static_cast<AVSampleFormat>(frame->format), frame->sample_rate, 0, nullptr);
    av_channel_layout_uninit(&from);
    converter.reset(swr);
    if (code < 0 || swr_init(swr) < 0) {
      converter.reset();
      return false;
    }
    from_format = frame->format;
    from_rate = frame->sample_rate;
    from_channels = frame->ch_layout.nb_channels;
    return true;
  }

  Input input;
  ff::Owned<AVCodecContext> codec;
  ff::Owned<SwrContext> converter;
  ff::Owned<AVFrame> frame = ff::new_frame();
  ff::Owned<AVPacket> packet = ff::new_packet();
  AVChannelLayout layout{};
  int rate = 0;
  int from_format = -1, from_rate = 0, from_channels = 0;
  std::vector<std::vector<float>> chunk;  // decoded but not yet delivered
  int64_t chunk_start = 0, next_start = 0;
  int chunk_count = 0, errors = 0;
  bool placed = false, draining = false, ended = false;
};

AudioReader::AudioReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
AudioReader::~AudioReader() = default;

std::unique_ptr<AudioReader> AudioReader::open(ByteSource& source, const std::string& name) {
  auto state = std::make_unique<State>(source, name);
  const AVStream* audio = state->input.audio();
  if (audio == nullptr || audio->codecpar->sample_rate <= 0 || audio->codecpar->sample_rate > kMaxRate)
    return nullptr;
  if (avcodec_find_decoder(audio->codecpar->codec_id) == nullptr) return nullptr;
  state->open_stream(name);
  return std::unique_ptr<AudioReader>(new AudioReader(std::move(state)));
}

int AudioReader::rate() const { return state_->rate; }
int AudioReader::channels() const { return state_->layout.nb_channels; }

bool AudioReader::ended() const { return state_->ended && state_->chunk_count == 0; }

void AudioReader::read(int64_t start, int64_t count, std::vector<std::vector<float>>& planes) {
  State& s = *state_;
  planes.resize(s.chunk.size());
  for (auto& plane : planes) plane.assign(static_cast<size_t>(count), 0.0F);
  const int64_t end = start + count;
  while (true) {
    const int64_t from = std::max(start, s.chunk_start), to = std::min(end, s.chunk_start + s.chunk_count);
    for (size_t c = 0; from < to && c < planes.size(); ++c) {
      std::copy_n(s.chunk[c].begin() + (from - s.chunk_start), to - from, planes[c].begin() + (from - start));
    }
    if (s.chunk_start + s.chunk_count >= end && s.chunk_count > 0) return;
    if (!s.next_chunk()) {
      s.chunk_count = 0;
      return;
    }
  }
}

}  // namespace kinora::video
