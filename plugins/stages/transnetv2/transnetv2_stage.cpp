// stage/shots.transnetv2: finds the starts of a video's shots with TransNet V2, from thumbnails of all
// frames.
#include <functional>
#include <memory>
#include <mutex>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <nlohmann/json.hpp>

#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "plugins/stages/transnetv2/network.hpp"

namespace kinora::transnetv2 {
namespace {

using nlohmann::json;

const char* const kSet = "set thumbnails = true on a stage shots or shots.* before shots.transnetv2";

const kinora_dl_tensor& tensor_of(const Sample& film, const char* name, uint8_t code, uint8_t bits,
                                  int32_t dimensions) {
  const kinora_dl_tensor* t = film.tensor(name);
  if (t == nullptr)
    throw Error(KINORA_ERROR_NOT_FOUND,
                "sample '" + std::string(film.key()) + "' has no tensor '" + name + "'; " + kSet);
  if (t->code != code || t->bits != bits || t->ndim != dimensions || !is_row_major(*t) ||
      t->device_type != KINORA_DL_CPU)
    throw Error(KINORA_ERROR_DATA, "tensor '" + std::string(name) + "' of sample '" +
                                       std::string(film.key()) +
                                       "' is not in the form that stage/shots writes; " + kSet);
  return *t;
}

at::Tensor thumbnails_of(const Sample& film) {
  const auto& t = tensor_of(film, "thumbnails", KINORA_DL_UINT, 8, 4);
  if (t.shape[0] < 1 || t.shape[1] != 27 || t.shape[2] != 48 || t.shape[3] != 3)
    throw Error(KINORA_ERROR_DATA, "tensor 'thumbnails' of sample '" + std::string(film.key()) +
                                       "' is not [T, 27, 48, 3]; " + kSet);
  return at::from_blob(static_cast<uint8_t*>(t.data) + t.byte_offset, {t.shape[0], 27, 48, 3}, at::kByte);
}

json shots_of(const Sample& film) {
  const auto text = film.text("shots.json");
  json shots = text ? json::parse(*text, nullptr, false) : json();
  if (!shots.is_object())
    throw Error(KINORA_ERROR_DATA, "sample '" + std::string(film.key()) + "' has no shots.json; " + kSet);
  return shots;
}

}  // namespace

class ShotsTransNetV2 final : public Stage {
 public:
  struct Options {
    std::string weights = "asset:transnetv2/transnetv2.safetensors";
    double threshold = 0.5;
    int64_t batch = 4, threads = 1;
    bool decide = true;
  };
  static void describe(Describe<Options>& d) {
    d.name("shots.transnetv2").help("Finds cuts and gradual changes with TransNet V2");
    d.input("thumbnails", "[T, 27, 48, 3]", "uint8",
            "every frame at 48 x 27, written by shots and shots.* with option thumbnails");
    d.input("times_us", "[T]", "int64", "time of every frame, written together with thumbnails");
    d.option("weights", &Options::weights)
        .path()
        .help("weights as safetensors, with the published network's names");
    d.option("threshold", &Options::threshold)
        .range(0, 1)
        .help("probability above which a frame is a change; Cosmos uses 0.4");
    d.option("batch", &Options::batch).range(1, 64).help("number of windows of 100 frames per call");
    d.option("threads", &Options::threads)
        .range(1, 64)
        .help("number of threads of tensor operations; the last bits of the result depend on it");
    d.option("decide", &Options::decide)
        .help("make its cuts the cuts of the video; else they are only listed among the detectors");
  }
  explicit ShotsTransNetV2(const Options& o) : options_(o) {}
  kinora_resources resources() const override {
    return {sizeof(kinora_resources), 0, static_cast<double>(options_.threads), 0.0, 0};
  }

  void process(Sample in, const Emit& emit, const Run& run) override {
    const c10::InferenceMode inference;
    // Otherwise this thread keeps the previous stage's number of threads, or one per core.
    if (at::get_num_threads() != options_.threads) at::set_num_threads(static_cast<int>(options_.threads));
    json shots = shots_of(in);
    const at::Tensor thumbnails = thumbnails_of(in);
    const auto& clock = tensor_of(in, "times_us", KINORA_DL_INT, 64, 1);
    if (clock.shape[0] != thumbnails.size(0))
      throw Error(KINORA_ERROR_DATA, "sample '" + std::string(in.key()) +
                                         "' has different numbers of times and thumbnails; " + kSet);
    const auto found =
        predict(std::cref(network()), thumbnails, options_.batch, [&] { run.check_cancelled(); });
    write(shots, found,
          reinterpret_cast<const int64_t*>(static_cast<const uint8_t*>(clock.data) + clock.byte_offset));
    in.set("shots.json", shots.dump());
    in.remove("thumbnails");
    in.remove("times_us");
    emit(std::move(in));
  }

 private:
  // Loads the network on first use; the stage serves several threads.
  const Network& network() {
    std::call_once(once_, [&] {
      network_ = std::make_unique<Network>(read_safetensors(options_.weights), options_.weights);
    });
    return *network_;
  }

  void write(json& shots, const FilmPredictions& found, const int64_t* times) const {
    const auto cuts = cuts_of(found.change, options_.threshold);
    shots["detectors"]["transnetv2"] = {{"cuts", cuts}, {"scores", found.change}, {"part", found.part}};
    if (!options_.decide) return;
    shots["cuts"] = cuts;
    shots["scores"] = found.change;
    auto& cut_times = shots["times_us"] = json::array();
    for (const int64_t cut : cuts) cut_times.push_back(times[cut]);
  }

  Options options_;
  std::once_flag once_;
  std::unique_ptr<Network> network_;
};

}  // namespace kinora::transnetv2

using kinora::transnetv2::ShotsTransNetV2;
KINORA_COMPONENT(ShotsTransNetV2)
KINORA_PLUGIN(ShotsTransNetV2)
