#include "clips/video_cutter.hpp"

#include <atomic>

#include <gmock/gmock.h>

#include "media/media_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;

// Counts the bytes read: a second decode reads them again.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(const Bytes& bytes) : bytes_(std::span(bytes)) {}
  int64_t size() override { return bytes_.size(); }
  int64_t read_at(int64_t offset, void* buffer, int64_t n) override {
    const int64_t got = bytes_.read_at(offset, buffer, n);
    read += got;
    return got;
  }
  std::atomic<int64_t> read = 0;

 private:
  MemorySource bytes_;
};

CutterOptions content() {
  CutterOptions o;
  o.shots.detectors = {DetectorOptions{}};
  o.shots.decide = "content";
  o.transcode.preset = "ultrafast";
  o.transcode.audio = false;
  o.transcode.max_height = 90;
  o.fate = [](int64_t, double, bool short_) { return short_ ? Fate::dropped : Fate::made; };
  return o;
}

struct Told {
  VideoCut cut;
  std::vector<Range> ranges;
  std::vector<Bytes> bytes;
};
Told cut(ByteSource& video, CutterOptions o) {
  Told out;
  int64_t next = 0;
  o.tell = [&](const NumberedClip& which, Clip clip) {
    EXPECT_EQ(which.number, next++);
    EXPECT_EQ(clip.error, "");
    out.ranges.push_back(which.planned.range);
    out.bytes.push_back(std::move(clip.bytes));
  };
  out.cut = cut_video(video, "film", o);
  return out;
}

int64_t frame_bytes(ByteSource& video) {
  Decoder decoder(video, "film");
  const Frame* frame = decoder.next();
  int64_t bytes = 0;
  for (int i = 0; i < AV_NUM_DATA_POINTERS; ++i)
    if (frame->picture->buf[i] != nullptr) bytes += static_cast<int64_t>(frame->picture->buf[i]->size);
  return bytes;
}

TEST(VideoCutter, DecodesAVideoOnce) {
  const Bytes bytes = testing::load("film.mp4");
  CountingSource video(bytes);
  for (const int parallel : {1, 3}) {
    CutterOptions o = content();
    o.transcode.parallel = parallel;
    video.read = 0;
    const Told told = cut(video, o);
    EXPECT_EQ(told.ranges.size(), 12u);
    EXPECT_EQ(told.cut.frames, 880);
    EXPECT_EQ(told.cut.decoded_again, 0);
    EXPECT_LT(video.read, video.size() * 5 / 4) << "apart from headers, every byte is read once";
  }
  CutterOptions all = content();
  all.transcode.parallel = 2;
  all.plan.edge_seconds = 0.2;
  all.shots.decide = "any";
  all.shots.tolerance = 2;
  all.shots.detectors.clear();
  for (const auto& name : detector_names()) {
    if (name == "transnetv2") continue;  // needs weights
    DetectorOptions one;
    one.name = name;
    one.threshold = name == "adaptive"    ? 3.0
                    : name == "histogram" ? 0.05
                    : name == "hash"      ? 0.395
                    : name == "threshold" ? 12.0
                                          : 27.0;
    all.shots.detectors.push_back(one);
  }
  video.read = 0;
  const Told told = cut(video, all);
  EXPECT_GT(told.ranges.size(), 12u);
  EXPECT_EQ(told.cut.decoded_again, 0) << "with every detector, and with edges removed";
  EXPECT_LT(video.read, video.size() * 5 / 4);
}

TEST(VideoCutter, WaitingFramesKeepWithinMemory) {
  const Bytes bytes = testing::load("film.mp4");
  CountingSource video(bytes);
  const int64_t frame = frame_bytes(video);
  CutterOptions slow = content();
#ifdef __SANITIZE_ADDRESS__  // which slows decoding too
  slow.transcode.preset = "veryslow";
#else
  slow.transcode.preset = "medium";  // slower than decoding, so that frames do wait
#endif
  const Told whole = cut(video, slow);
  for (const int64_t frames : {4, 40}) {
    CutterOptions o = slow;
    o.transcode.parallel = 2;
    o.transcode.memory = frames * frame;
    const Told told = cut(video, o);
    EXPECT_LE(told.cut.most_waiting, o.transcode.memory + frame);
    EXPECT_GT(told.cut.most_waiting, o.transcode.memory / 4);
    EXPECT_TRUE(told.bytes == whole.bytes) << frames;
    EXPECT_EQ(told.cut.shots, whole.cut.shots);
  }
}

// The equal parts of a shot over max_seconds are known only at its end.
TEST(VideoCutter, OnlyLongShotsInEqualPartsAreDecodedAgain) {
  const Bytes bytes = testing::load("film.mp4");
  CountingSource video(bytes);
  CutterOptions o = content();
  o.plan.max_seconds = 3.4;  // 81 frames; two shots of 84 frames and one of 96 are longer
  const Told told = cut(video, o);
  int64_t long_shots = 0, first = 0;
  for (const auto& cut : told.cut.shots.at("cuts")) {
    if (cut.get<int64_t>() - first > 81) long_shots += cut.get<int64_t>() - first;
    first = cut;
  }
  EXPECT_GT(long_shots, 0);
  EXPECT_EQ(told.cut.decoded_again, long_shots);
  for (const char* rule : {"stride", "truncate"}) {
    o.plan.long_shots = rule;
    EXPECT_EQ(cut(video, o).cut.decoded_again, 0) << rule;
  }
}

TEST(VideoCutter, SaysWhatIsWrongWithAVideoWithoutPictures) {
  EXPECT_EQ(
      no_frame("a.mp4", ""),
      "a.mp4: no frame could be decoded; its video stream has no visible frame; fetch or re-encode the file");
  EXPECT_EQ(no_frame("a.mp4", "a.mp4: cut off"), "a.mp4: no frame could be decoded; cut off");
}

}  // namespace
}  // namespace kinora::video
