// Finds the shots of a video from its frames as they are decoded, with any set of detectors and a rule that
// combines them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/cpu/frame_meter.hpp"
#include "media/convert.hpp"
#include "media/ffmpeg.hpp"
#include "media/probe.hpp"
#include "shots/cut_decision.hpp"
#include "shots/frame_times.hpp"
#include "shots/shot_detector.hpp"
#include "shots/thumbnailer.hpp"

namespace kinora::video {

// The size that PySceneDetect measures at: downscale 0 is its automatic rule, 1 keeps the frames' size.
FrameSize measured_size(FrameSize upright, int64_t downscale);

// Whether OpenCV's reader and FFmpeg's scale filter take the frame's values as 0 to 255.
bool is_full_range(const AVFrame& frame);

// Measures decoded frames for the detectors, as if OpenCV's reader had given them to PySceneDetect (upright,
// in BGR), without producing most of those frames. [owner-thread] One video, frames in order.
class MeasureSource {
 public:
  // size: the container's, before rotation. Frames of another size are scaled to it, as
  // in OpenCV's reader.
  MeasureSource(FrameSize size, Orientation rotation, int64_t downscale, const MeterOptions& needs);
  ~MeasureSource();
  MeasureSource(const MeasureSource&) = delete;
  MeasureSource& operator=(const MeasureSource&) = delete;

  // Measures the frame against the previous one. Keeps a reference to the frame until the next call.
  FrameMeasures push(const AVFrame& frame);

 private:
  FrameMeasures push_planes(const AVFrame& frame);
  BgrView whole(const AVFrame& frame);
  const AVFrame& turned(const AVFrame& frame);

  FrameSize size_;
  Orientation rotation_;
  FrameMeter meter_;
  SwsContext* convert_ = nullptr;
  int convert_format_ = -1;
  FrameSize convert_from_;
  std::vector<uint8_t> bgr_, upright_bgr_;
  ff::Owned<AVFrame> last_;       // the previous frame, if it was measured by its planes
  ff::Owned<AVFrame> turned_[2];  // this frame and the previous one, upright
  size_t turn_ = 0;
};

struct ShotsPlan {
  std::vector<DetectorOptions> detectors;
  std::string decide = "any";  // any, all, or a detector's name: the rule that selects cuts
  int64_t tolerance = 0;       // with any and all: frames within which cuts count as one
  int64_t edge_kernel = 0;     // pixels; 0: chosen by the size
  int64_t downscale = 0;       // see measured_size()
  int64_t threads = 1;         // decoder threads; from 2 on, another thread measures
  double sample_every = 0;     // seconds; 0: no frames
  int64_t sample_height = 0;
  bool thumbnails = false;
  std::string decoder = "cpu";  // see describe_decoder()
  std::string weights;          // of transnetv2; see network_file.hpp
};

// Frames at which the pictures of a video take another form, from all frames in order. [owner-thread]
class FormChanges {
 public:
  void push(const AVFrame& picture, int64_t frame) {
    const PictureForm form = PictureForm::of(picture);
    if (form_ && form != *form_) frames_.push_back(frame);
    form_ = form;
  }
  const std::vector<int64_t>& frames() const { return frames_; }

 private:
  std::optional<PictureForm> form_;
  std::vector<int64_t> frames_;
};

// [owner-thread]
class ShotFinder {
 public:
  // The plan is borrowed. Its frames for other stages are ignored here.
  ShotFinder(const VideoInfo& video, const ShotsPlan& plan);

  // Takes the next frame.
  void push(const AVFrame& picture, const Moment& now);
  // Returns the final decisions on the frames so far; see CutDecision.
  const CutDecision& settle(const Moment& now);
  void finish(const Moment& last);

  // Frames that belong to no shot, around some of the cuts; known for every cut that settle() has returned.
  const std::vector<Range>& transitions() const { return *transitions_; }
  // Call after finish(): returns the field shots.json, given the frames' times.
  nlohmann::json shots(const VideoClock& clock) const;

 private:
  int64_t frames_between(int64_t from, int64_t to) const;

  const ShotsPlan& plan_;
  double rate_;         // nominal
  double length_rate_;  // by which lengths in frames count
  FormChanges changes_;
  std::vector<int64_t> times_us_;
  std::vector<std::unique_ptr<ShotDetector>> detectors_;
  std::vector<SettledFrames> settled_;
  std::vector<const std::vector<int64_t>*> found_;
  CutDecision decision_;
  std::optional<MeasureSource> source_;
  std::optional<Thumbnailer> thumbnailer_;
  const std::vector<Range>* transitions_;
};

// Sets the member `changes` of shots.json: cuts that no stage takes away. Without any there is none.
void write_changes(nlohmann::json& shots, const std::vector<int64_t>& changes);

// Sets the member `transitions` of shots.json, [first, end) each; without transitions there is none.
void write_transitions(nlohmann::json& shots, const std::vector<Range>& transitions);

// Message for a video that gave no frame; damaged: Decoder::damaged().
std::string no_frame(const std::string& name, const std::string& damaged);

}  // namespace kinora::video
