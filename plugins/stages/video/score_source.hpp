// Content scores of decoded frames: the frames as OpenCV's reader gives them to PySceneDetect, without making most of them.
#pragma once
#include <vector>

#include "kernels/cpu/content_score.hpp"

struct AVFrame;
struct SwsContext;

namespace kinora::video {

// [owner-thread] One video; its frames in order.
class ScoreSource {
 public:
  // size: the container's. Frames of another size are scaled to it, as OpenCV's reader does.
  ScoreSource(FrameSize size, const ContentWeights& weights) : weights_(weights), size_(size), scorer_(size) {}
  ~ScoreSource();
  ScoreSource(const ScoreSource&) = delete;
  ScoreSource& operator=(const ScoreSource&) = delete;

  // Score of the frame against the one before; 0 for the first.
  double push(const AVFrame& frame);

 private:
  BgrView whole(const AVFrame& frame);
  ContentWeights weights_;
  FrameSize size_;
  ContentScorer scorer_;
  SwsContext* convert_ = nullptr;
  int convert_format_ = -1;
  FrameSize convert_from_;
  std::vector<uint8_t> bgr_;
};

}  // namespace kinora::video
