// stage/video.probe: reads a video's properties from its headers; optionally counts its frames by decoding.
#include "media/decoder.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media.hpp"
#include "media/probe.hpp"

namespace kinora::video {
class VideoProbe final : public Stage {
 public:
  struct Options {
    bool count = false;
    int64_t threads = 1;
  };
  static void describe(Describe<Options>& d) {
    d.name("video.probe").help("Adds what a video's headers say: size, rate, length, codecs, rotation");
    d.option("count", &Options::count).help("decode the whole video and count its frames exactly");
    d.option("threads", &Options::threads).range(1, 64).help("number of decoder threads, for count");
  }
  explicit VideoProbe(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(options_.count ? options_.threads : 1); }

  void process(Sample in, const Emit& emit, const Run&) override {
    const Media media = open_media(in);
    auto all = facts_of(in);
    media_call([&] {
      const Probe found = probe(*media.source, media.name);
      all.update(facts_of(found));
      if (!found.damage.empty()) all["damaged"] = media.name + ": " + found.damage;
      if (!options_.count) return;
      DecoderOptions options;
      options.threads = static_cast<int>(options_.threads);
      const Counted counted = count_frames(*media.source, media.name, options);
      all["frames"] = counted.frames;
      all["frames_estimated"] = false;
      if (!counted.damaged.empty()) all["damaged"] = counted.damaged;
    });
    in.set("json", all.dump());
    emit(std::move(in));
  }

 private:
  Options options_;
};

}  // namespace kinora::video

using kinora::video::VideoProbe;
KINORA_COMPONENT(VideoProbe)
