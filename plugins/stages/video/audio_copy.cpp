#include "audio_copy.hpp"

#include "media_error.hpp"
#include "probe.hpp"

namespace kinora::video {

AudioCopy::AudioCopy(ByteSource& film, Mp4Writer& writer)
    : input_(film, "copy_audio", Limits{}), writer_(writer) {
  if (input_.audio() == nullptr) throw MediaError("copy_audio: the film has no audio; leave copy_audio out");
  input_.select(input_.audio());
  stream_ = writer_.add(*input_.audio()->codecpar, input_.audio()->time_base);
}

void AudioCopy::write_until(double seconds) {
  const AVRational base = input_.audio()->time_base;
  while (true) {
    while (packet_->data == nullptr || packet_->stream_index != input_.audio()->index) {
      av_packet_unref(packet_.get());
      if (input_.read(*packet_) < 0) return;
    }
    if (packet_->pts != AV_NOPTS_VALUE && static_cast<double>(packet_->pts) * av_q2d(base) >= seconds) return;
    writer_.write(*packet_, *stream_, base);
  }
}

}  // namespace kinora::video
