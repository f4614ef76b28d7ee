#include "media/aac_track.hpp"

#include <algorithm>

#include "media/byte_source.hpp"

namespace kinora::video {
namespace {

constexpr int kFallbackRate = 48'000;
constexpr int64_t kBitsPerChannel = 96'000;
constexpr int kChunk = 1 << 16;  // samples processed at a time

bool supports(const AVCodec& codec, int rate) {
  for (const int* known = codec.supported_samplerates; known != nullptr && *known != 0; ++known) {
    if (*known == rate) return true;
  }
  return false;
}

void check(int code, const char* what) {
  if (code < 0) {
    throw MediaError(std::string("audio track: ") + what + " failed (" + ff::error_text(code) +
                     "); use 1 to 6 or 8 channels, or drop the audio");
  }
}

}  // namespace

AacTrack::AacTrack(const AudioFormat& format, Mp4Writer& writer) : writer_(writer) {
  open_encoder(format);
  if (format.rate != encoder_->sample_rate) open_resampler(format);
  fifo_ = ff::own(av_audio_fifo_alloc(AV_SAMPLE_FMT_FLTP, format.channels, encoder_->frame_size * 2));
  stream_ = writer_.add(*encoder_);
}

void AacTrack::open_encoder(const AudioFormat& format) {
  const AVCodec* codec = avcodec_find_encoder_by_name("aac");
  if (codec == nullptr)
    throw MediaError("audio track: this FFmpeg has no AAC encoder; install a full libavcodec");
  encoder_ = ff::own(avcodec_alloc_context3(codec));
  av_channel_layout_default(&encoder_->ch_layout, format.channels);
  encoder_->sample_fmt = AV_SAMPLE_FMT_FLTP;
  encoder_->sample_rate = supports(*codec, format.rate) ? format.rate : kFallbackRate;
  encoder_->time_base = {1, encoder_->sample_rate};
  encoder_->bit_rate = format.bit_rate > 0 ? format.bit_rate : kBitsPerChannel * format.channels;
  encoder_->thread_count = 1;
  encoder_->flags |= AV_CODEC_FLAG_BITEXACT | AV_CODEC_FLAG_GLOBAL_HEADER;
  // No perceptual noise substitution: it keeps the waveform and avoids random numbers in decoders.
  check(av_opt_set_int(encoder_->priv_data, "aac_pns", 0, 0), "opening AAC");
  check(avcodec_open2(encoder_.get(), codec, nullptr), "opening AAC");
}

void AacTrack::open_resampler(const AudioFormat& format) {
  SwrContext* resampler = nullptr;
  check(swr_alloc_set_opts2(&resampler, &encoder_->ch_layout, AV_SAMPLE_FMT_FLTP, encoder_->sample_rate,
                            &encoder_->ch_layout, AV_SAMPLE_FMT_FLTP, format.rate, 0, nullptr),
        "preparing the resampler");
  resampler_.reset(resampler);
  check(swr_init(resampler), "preparing the resampler");
  converted_ = ff::new_frame();
  converted_->format = AV_SAMPLE_FMT_FLTP;
  converted_->sample_rate = encoder_->sample_rate;
  converted_->nb_samples = swr_get_out_samples(resampler, kChunk) + encoder_->frame_size;
  check(av_channel_layout_copy(&converted_->ch_layout, &encoder_->ch_layout), "preparing the resampler");
  check(av_frame_get_buffer(converted_.get(), 0), "preparing the resampler");
}

void AacTrack::store(const uint8_t** planes, int count) {
  if (resampler_) {
    count = swr_convert(resampler_.get(), converted_->extended_data, converted_->nb_samples, planes, count);
    check(count, "resampling");
    planes = const_cast<const uint8_t**>(converted_->extended_data);
  }
  if (count > 0) check(av_audio_fifo_write(fifo_.get(), (void**)planes, count), "buffering");
}

void AacTrack::write(const float* const* planes, int64_t count) {
  const int channels = encoder_->ch_layout.nb_channels;
  std::vector<const uint8_t*> at(static_cast<size_t>(channels));
  for (int64_t done = 0; done < count; done += kChunk) {
    for (int c = 0; c < channels; ++c) at[c] = reinterpret_cast<const uint8_t*>(planes[c] + done);
    store(at.data(), static_cast<int>(std::min<int64_t>(kChunk, count - done)));
    encode(false);
  }
}

void AacTrack::encode(bool flush) {
  while (av_audio_fifo_size(fifo_.get()) >= (flush ? 1 : encoder_->frame_size)) {
    auto frame = ff::new_frame();
    frame->nb_samples = std::min(av_audio_fifo_size(fifo_.get()), encoder_->frame_size);
    frame->format = AV_SAMPLE_FMT_FLTP;
    frame->sample_rate = encoder_->sample_rate;
    check(av_channel_layout_copy(&frame->ch_layout, &encoder_->ch_layout), "buffering");
    check(av_frame_get_buffer(frame.get(), 0), "buffering");
    check(av_audio_fifo_read(fifo_.get(), reinterpret_cast<void**>(frame->extended_data), frame->nb_samples),
          "buffering");
    frame->pts = sent_;
    sent_ += frame->nb_samples;
    send(frame.get());
  }
}

void AacTrack::send(const AVFrame* frame) {
  check(avcodec_send_frame(encoder_.get(), frame), "encoding AAC");
  auto packet = ff::new_packet();
  int code = 0;
  while ((code = avcodec_receive_packet(encoder_.get(), packet.get())) >= 0) {
    writer_.write(*packet, *stream_, encoder_->time_base);
  }
  if (code != AVERROR(EAGAIN) && code != AVERROR_EOF) check(code, "encoding AAC");
}

void AacTrack::finish() {
  if (resampler_) store(nullptr, 0);
  encode(true);
  send(nullptr);
}

}  // namespace kinora::video
