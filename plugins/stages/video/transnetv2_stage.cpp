// stage/shots.transnetv2: finds the shots of a video with TransNet V2, from thumbnails of all frames.
#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media/sample_media.hpp"
#include "shots/network_detector.hpp"
#include "shots/network_file.hpp"

namespace kinora::video {
namespace {

const char* const kSet = "set thumbnails = true on a stage shots or shots.* before shots.transnetv2";

const kinora_dl_tensor& tensor_of(const Sample& video, const char* name, uint8_t code, uint8_t bits,
                                  int32_t dimensions) {
  const kinora_dl_tensor* t = video.tensor(name);
  if (t == nullptr)
    throw Error(KINORA_ERROR_NOT_FOUND,
                "sample '" + std::string(video.key()) + "' has no tensor '" + name + "'; " + kSet);
  if (t->code != code || t->bits != bits || t->ndim != dimensions || !is_row_major(*t) ||
      t->device_type != KINORA_DL_CPU)
    throw Error(KINORA_ERROR_DATA, "tensor '" + std::string(name) + "' of sample '" +
                                       std::string(video.key()) +
                                       "' is not in the form that stage/shots writes; " + kSet);
  return *t;
}

const uint8_t* bytes_of(const kinora_dl_tensor& t) {
  return static_cast<const uint8_t*>(t.data) + t.byte_offset;
}

const kinora_dl_tensor& thumbnails_of(const Sample& video) {
  const auto& t = tensor_of(video, "thumbnails", KINORA_DL_UINT, 8, 4);
  if (t.shape[0] < 1 || t.shape[1] != Thumbnailer::kHeight || t.shape[2] != Thumbnailer::kWidth ||
      t.shape[3] != 3)
    throw Error(KINORA_ERROR_DATA, "tensor 'thumbnails' of sample '" + std::string(video.key()) +
                                       "' is not [T, 27, 48, 3]; " + kSet);
  return t;
}

nlohmann::json shots_of(const Sample& video) {
  const auto text = video.text("shots.json");
  auto shots = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (!shots.is_object())
    throw Error(KINORA_ERROR_DATA, "sample '" + std::string(video.key()) + "' has no shots.json; " + kSet);
  return shots;
}

}  // namespace

class ShotsTransNetV2 final : public Stage {
 public:
  struct Options {
    std::string weights = "asset:transnetv2/transnetv2.safetensors";
    double threshold = 0.5;
    bool decide = true;
  };
  static void describe(Describe<Options>& d) {
    d.name("shots.transnetv2")
        .help("Finds cuts and gradual changes with TransNet V2, as the detector transnetv2");
    d.input("thumbnails", "[T, 27, 48, 3]", "uint8",
            "every frame at 48 x 27, written by shots and shots.* with option thumbnails");
    d.input("times_us", "[T]", "int64", "time of every frame, written together with thumbnails");
    d.option("weights", &Options::weights)
        .path()
        .help("weights as safetensors, with the published network's names");
    d.option("threshold", &Options::threshold)
        .range(0, 1)
        .help("probability above which a frame is a change; Cosmos uses 0.4");
    d.option("decide", &Options::decide)
        .help("make its cuts the cuts of the video; else they are only listed among the detectors");
  }
  explicit ShotsTransNetV2(const Options& o) : options_(o) {}
  void start(const Run&) override { network_ = read_network(options_.weights); }

  void process(Sample in, const Emit& emit, const Run& run) override {
    if (is_picture(in)) return emit(std::move(in));
    auto shots = shots_of(in);
    const auto& thumbnails = thumbnails_of(in);
    const auto& clock = tensor_of(in, "times_us", KINORA_DL_INT, 64, 1);
    if (clock.shape[0] != thumbnails.shape[0])
      throw Error(KINORA_ERROR_DATA, "sample '" + std::string(in.key()) +
                                         "' has different numbers of times and thumbnails; " + kSet);
    DetectorOptions options;
    options.name = "transnetv2";
    options.threshold = options_.threshold;
    options.network = network_;
    const auto detector = make_network_detector(options);
    for (int64_t i = 0; i < thumbnails.shape[0]; ++i) {
      run.check_cancelled();
      detector->see(bytes_of(thumbnails) + i * static_cast<int64_t>(Thumbnailer::kBytes));
      detector->push({}, {});
    }
    detector->finish({});
    write(shots, *detector, reinterpret_cast<const int64_t*>(bytes_of(clock)));
    in.set("shots.json", shots.dump());
    in.remove("thumbnails");
    in.remove("times_us");
    emit(std::move(in));
  }

 private:
  void write(nlohmann::json& shots, const ShotDetector& found, const int64_t* times) const {
    shots["detectors"]["transnetv2"] = {
        {"cuts", found.cuts()}, {"scores", found.scores()}, {"part", *found.parts()}};
    if (!options_.decide) return;
    shots["cuts"] = found.cuts();
    shots["scores"] = found.scores();
    auto& cut_times = shots["times_us"] = nlohmann::json::array();
    for (const int64_t cut : found.cuts()) cut_times.push_back(times[cut]);
    write_transitions(shots, found.transitions());
  }

  Options options_;
  std::shared_ptr<const transnetv2::Network> network_;
};

}  // namespace kinora::video

using kinora::video::ShotsTransNetV2;
KINORA_COMPONENT(ShotsTransNetV2)
