#include "media/sent_packets.hpp"

namespace kinora::video {

void SentPackets::add(AVCodecContext& decoder, const AVPacket& packet, int64_t nominal) {
  Sent& sent = sent_[next_++ % sent_.size()];
  sent.pts = packet.pts;
  sent.waits = packet.pts != AV_NOPTS_VALUE && (packet.flags & AV_PKT_FLAG_DISCARD) == 0;
  sent.has_error = false;
  nominal_ = nominal;
  decoder.opaque = &sent;  // FFmpeg copies it to the context of the thread that decodes the packet
}

// The two fields of a picture may come in two packets, and give one picture: then no time is left out.
bool SentPackets::lacks_picture_before(int64_t pts) {
  if (pts == AV_NOPTS_VALUE) return false;
  const bool leaps = shown_ != AV_NOPTS_VALUE && pts - shown_ > nominal_ + nominal_ / 2;
  bool lacks = false;
  for (Sent& sent : sent_) {
    if (!sent.waits || sent.pts > pts) continue;
    sent.waits = false;
    lacks = lacks || (leaps && sent.has_error && sent.pts > shown_ && sent.pts < pts);
  }
  shown_ = pts;
  return lacks;
}

bool SentPackets::lacks_picture_at_end() {
  bool lacks = false;
  for (const Sent& sent : sent_)
    lacks = lacks || (sent.waits && sent.has_error && shown_ != AV_NOPTS_VALUE &&
                      sent.pts - shown_ > nominal_ - nominal_ / 4);
  return lacks;
}

void SentPackets::clear() {
  for (Sent& sent : sent_) sent.waits = false;
  shown_ = AV_NOPTS_VALUE;
}

void SentPackets::take_error(const AVCodecContext& decoder) noexcept {
  if (decoder.opaque != nullptr && decoder.hw_device_ctx == nullptr)
    static_cast<Sent*>(decoder.opaque)->has_error = true;
}

}  // namespace kinora::video
