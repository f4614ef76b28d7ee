#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "media/decoder.hpp"
#include "media/hardware_decoder.hpp"
#include "media/input.hpp"
#include "media/sent_packets.hpp"

namespace kinora::video {

// Reports that the options' hardware does not decode this video: by on_fallback, or by the MediaError of
// hardware_only.
inline void fall_back(const DecoderOptions& options, const std::string& name, const std::string& why) {
  if (options.hardware_only)
    throw MediaError(name + ": " + why + "; set decoder = \"auto\" to decode on the CPU then");
  if (options.on_fallback) options.on_fallback(name + ": " + why);
}

// Decodes a video's packets into pictures in presentation order and counts errors.
//
// [owner-thread] The source is borrowed.
class FrameQueue {
 public:
  FrameQueue(ByteSource& source, const std::string& name, const DecoderOptions& options)
      : input_(source, name, options.limits), max_errors_(options.max_errors) {
    if (input_.video() == nullptr) return;  // describe() reports it
    input_.select(input_.video());
    if (options.hardware != nullptr) {
      std::string why;
      if ((codec_ = options.hardware->open(*input_.video(), options.limits, why))) {
        hardware_ = options.hardware;
        return;
      }
      fall_back(options, name, why);
    }
    codec_ = open_decoder(*input_.video(), name, options.threads, options.limits, options.motion_vectors);
  }

  const Input& input() const { return input_; }
  const AVFrame& picture() const { return *picture_; }
  const HardwareDecoder* hardware() const { return hardware_; }  // null while the CPU decodes

  // Whether parts of the picture are missing or have been guessed.
  bool is_concealed() const {
    return picture_->decode_error_flags != 0 || (picture_->flags & AV_FRAME_FLAG_CORRUPT) != 0;
  }

  // The first error since the video was opened, or empty.
  const std::string& problem() const { return problem_; }
  void forget_problem() { problem_.clear(); }
  // The number of errors, and the timestamp of the packet of the last one (AV_NOPTS_VALUE: unknown).
  int64_t problems() const { return problems_; }
  int64_t problem_pts() const { return problem_pts_; }

  // Decodes the next frame into picture(); false at the end of what can be decoded.
  bool pull() {
    while (true) {
      int code = avcodec_receive_frame(codec_.get(), picture_.get());
      if (code == 0 && hardware_ != nullptr) code = hardware_->download(*codec_, *picture_);
      if (code == 0) {
        errors_ = silent_ = 0;
        picture_->sample_aspect_ratio = shown_aspect();
        if (sent_.lacks_picture_before(picture_->best_effort_timestamp))
          note("a picture is missing before it");
        return true;
      }
      if (code == AVERROR_EOF) {
        if (sent_.lacks_picture_at_end()) note("the last pictures are missing");
        return false;
      }
      if (code == AVERROR(EAGAIN) ? !feed() : !tolerate(code)) return false;
    }
  }

  bool seek(int64_t timestamp) {
    if (input_.seek(input_.video(), timestamp) < 0) return false;
    avcodec_flush_buffers(codec_.get());
    draining_ = false;
    errors_ = silent_ = 0;
    sent_.clear();
    return true;
  }

 private:
  // Consecutive packets that may give neither a frame nor an error: more than any codec's delay and than the
  // wait for the first key frame of a stream that starts in the middle.
  static constexpr int kMaxSilentPackets = 4096;

  // The container's shape of a pixel before the codec's, unless the codec changes it within the stream.
  AVRational shown_aspect() {
    const AVRational own = picture_->sample_aspect_ratio,
                     first = input_.video()->codecpar->sample_aspect_ratio;
    const bool changes = own.num > 0 && first.num > 0 && av_cmp_q(own, first) != 0;
    return changes ? own : av_guess_sample_aspect_ratio(input_.format(), input_.video(), picture_.get());
  }

  // Returns the length of a picture in ticks, or 1 if the stream has no rate.
  int64_t usual_length() {
    const AVRational rate = av_guess_frame_rate(input_.format(), input_.video(), nullptr);
    if (rate.num <= 0 || rate.den <= 0) return 1;
    return std::clamp(av_rescale_q(1, av_inv_q(rate), input_.video()->time_base), int64_t{1}, kLongestFrame);
  }

  bool feed() {
    if (draining_) return false;
    const int read = input_.read(*packet_);
    if (read < 0) {
      if (read != AVERROR_EOF) note("reading stopped: " + ff::error_text(read));
      if (read == AVERROR_EOF && input_.has_lost_end()) note("the last packets are lost");
      draining_ = true;
      return avcodec_send_packet(codec_.get(), nullptr) >= 0;
    }
    if (packet_->stream_index != input_.video()->index) {
      av_packet_unref(packet_.get());
      return true;
    }
    packet_pts_ = packet_->pts;
    if ((packet_->flags & AV_PKT_FLAG_CORRUPT) != 0) note("a packet is incomplete or lost");
    if (hardware_ == nullptr) sent_.add(*codec_, *packet_, usual_length());
    const int sent = avcodec_send_packet(codec_.get(), packet_.get());
    av_packet_unref(packet_.get());
    if (sent < 0) return tolerate(sent);
    if (++silent_ <= kMaxSilentPackets) return true;
    note(std::to_string(kMaxSilentPackets) + " packets without a frame");
    return false;
  }

  bool tolerate(int code) {
    note(ff::error_text(code));
    return ++errors_ < max_errors_;
  }

  void note(std::string problem) {
    ++problems_;
    problem_pts_ = packet_pts_;
    if (problem_.empty()) problem_ = std::move(problem);
  }

  Input input_;
  SentPackets sent_;  // outlives codec_
  const HardwareDecoder* hardware_ = nullptr;
  ff::Owned<AVCodecContext> codec_;
  ff::Owned<AVPacket> packet_ = ff::new_packet();
  ff::Owned<AVFrame> picture_ = ff::new_frame();
  std::string problem_;
  int64_t problems_ = 0, problem_pts_ = AV_NOPTS_VALUE, packet_pts_ = AV_NOPTS_VALUE;
  int max_errors_;
  int errors_ = 0, silent_ = 0;
  bool draining_ = false;
};

}  // namespace kinora::video
