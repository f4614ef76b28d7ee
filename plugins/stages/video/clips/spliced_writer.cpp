#include "clips/spliced_writer.hpp"

#include <algorithm>

#include "media/byte_source.hpp"

namespace kinora::video {
namespace {

// The video's parameter sets followed by the encoder's.
ParameterSets joined(ParameterSets sets, const AVCodecContext* encoder) {
  if (encoder == nullptr) return sets;
  std::vector<std::span<const uint8_t>> units;
  split_units({encoder->extradata, static_cast<size_t>(encoder->extradata_size)}, units);
  for (const auto& unit : units) {
    if (unit_type(unit) == 7) sets.sequence.emplace_back(unit.begin(), unit.end());
    if (unit_type(unit) == 8) sets.picture.emplace_back(unit.begin(), unit.end());
  }
  return sets;
}

}  // namespace

SplicedWriter::SplicedWriter(const AVCodecParameters& stream, const ParameterSets& sets,
                             const EncoderOptions& ends)
    : ends_(ends), writer_(ends.metadata), time_base_{ends.time_base.num, ends.time_base.den} {
  ends_.length_prefixed = true;
  if (ends_.parameter_set != 0) encoder_ = new_encoder();
  const auto record = write_avcc(joined(sets, encoder_ ? &encoder_->context() : nullptr));
  auto parameters = ff::own(avcodec_parameters_alloc());
  if (avcodec_parameters_copy(parameters.get(), &stream) < 0) throw std::bad_alloc();
  av_freep(&parameters->extradata);
  parameters->extradata = static_cast<uint8_t*>(av_mallocz(record.size() + AV_INPUT_BUFFER_PADDING_SIZE));
  if (parameters->extradata == nullptr) throw std::bad_alloc();
  std::copy(record.begin(), record.end(), parameters->extradata);
  parameters->extradata_size = static_cast<int>(record.size());
  parameters->color_space = static_cast<AVColorSpace>(ends_.colour.matrix);
  parameters->color_range = AVCOL_RANGE_MPEG;
  stream_ = writer_.add(*parameters, time_base_);
  stream_->avg_frame_rate = {ends_.fps.num, ends_.fps.den};
  stream_->sample_aspect_ratio = {ends_.sample_aspect.num, ends_.sample_aspect.den};
  if (ends_.audio.rate > 0) audio_ = std::make_unique<AacTrack>(ends_.audio, writer_);
  writer_.start(audio_ ? audio_->rate() : std::max(1000, time_base_.den));
}

std::unique_ptr<FrameEncoder> SplicedWriter::new_encoder() {
  return std::make_unique<FrameEncoder>(ends_, [this](AVPacket& packet) { keep(packet, packet.pts); });
}

void SplicedWriter::keep(const AVPacket& packet, int64_t pts) {
  auto kept = ff::new_packet();
  if (av_packet_ref(kept.get(), &packet) < 0) throw std::bad_alloc();
  kept->pts = pts;
  packets_.push_back(std::move(kept));
}

void SplicedWriter::encode(const AVFrame& frame, int64_t pts) {
  if (!encoder_) encoder_ = new_encoder();
  encoder_->write(frame, pts);
}

void SplicedWriter::end_encoding(int64_t end_pts) {
  encoder_->finish(end_pts);
  encoder_.reset();
}

void SplicedWriter::copy(const AVPacket& packet, int64_t pts) { keep(packet, pts); }

void SplicedWriter::write_audio(const float* const* planes, int64_t count) { audio_->write(planes, count); }

// Sets durations from the frames' starts. Decoding times are the starts in ascending order, as late as
// possible with every frame decoded before it is shown, so the first ones are below 0.
void SplicedWriter::set_times(int64_t end_pts) {
  std::vector<int64_t> starts;
  for (const auto& packet : packets_) starts.push_back(packet->pts);
  std::sort(starts.begin(), starts.end());
  size_t delay = 0;
  for (size_t i = 0; i < packets_.size(); ++i) {
    const auto place = std::lower_bound(starts.begin(), starts.end(), packets_[i]->pts) - starts.begin();
    if (static_cast<size_t>(place) < i) delay = std::max(delay, i - static_cast<size_t>(place));
  }
  for (size_t i = 0; i < packets_.size(); ++i) {
    AVPacket& packet = *packets_[i];
    const auto next = std::upper_bound(starts.begin(), starts.end(), packet.pts);
    packet.duration = (next != starts.end() ? *next : end_pts) - packet.pts;
    packet.dts = i >= delay ? starts[i - delay] : starts[i] - (starts[delay] - starts[0]);
  }
}

std::vector<uint8_t> SplicedWriter::finish(int64_t end_pts) {
  set_times(end_pts);
  for (auto& packet : packets_) writer_.write(*packet, *stream_, time_base_);
  if (audio_) audio_->finish();
  return writer_.finish();
}

}  // namespace kinora::video
