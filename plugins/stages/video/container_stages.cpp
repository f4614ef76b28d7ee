// Stages for a video's container: video.probe reports what it says, video.remux rewrites it.
#include <fmt/format.h>

#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media/decoder.hpp"
#include "media/orientation.hpp"
#include "media/packet_index.hpp"
#include "media/probe.hpp"
#include "media/remux.hpp"
#include "media/sample_media.hpp"

namespace kinora::video {

// stage/video.probe: reads a video's properties from its headers; optionally counts its frames by decoding.
class VideoProbe final : public Stage {
 public:
  struct Options {
    bool count = false, packets = false;
    int64_t threads = 1;
  };
  static void describe(Describe<Options>& d) {
    d.name("video.probe").help("Adds what a video's headers say: size, rate, length, codecs, rotation");
    d.option("count", &Options::count).help("decode the whole video and count its frames exactly");
    d.option("packets", &Options::packets)
        .help("count the frames of Matroska and WebM, whose headers do not say it, by their packets");
    d.option("threads", &Options::threads).range(1, 64).help("number of decoder threads, for count");
  }
  explicit VideoProbe(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(options_.count ? options_.threads : 1); }

  void process(Sample in, const Emit& emit, const Run&) override {
    auto all = facts_of(in);
    if (all.contains("picture")) return emit(std::move(in));  // picture.read has said it all
    const Media media = open_media(in);
    media_call([&] {
      const Probe found = probe(*media.source, media.name);
      all.update(facts_of(found));
      if (const auto stored = Orientation::of(*media.source); !stored.is_upright())
        all.update({{"rotation", stored.degrees}, {"mirrored", stored.mirrored}});
      if (!found.damage.empty()) all["damaged"] = media.name + ": " + found.damage;
      if (options_.packets && found.video.frames_estimated)
        if (const auto frames = count_packets(*media.source, media.name))
          all.update({{"frames", *frames}, {"frames_estimated", false}});
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

// stage/video.remux: rewrites videos whose containers cannot be seeked before other stages seek in them.
class VideoRemux final : public Stage {
 public:
  struct Options {
    bool require = false;
  };
  static void describe(Describe<Options>& d) {
    d.name("video.remux")
        .formerly("film.remux")
        .help(
            "Rewrites transport streams, AVI, FLV and other containers without an index as MP4, QuickTime or "
            "Matroska for the duration of the job, without decoding; the clips stay the same");
    d.option("require", &Options::require)
        .help(
            "fail a video that cannot be rewritten without loss, such as a damaged one; else it is emitted "
            "unchanged, with fact remux_failed");
  }
  explicit VideoRemux(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(); }

  void process(Sample in, const Emit& emit, const Run& run) override {
    if (is_picture(in)) return emit(std::move(in));
    if (run.out().empty())
      throw Error(KINORA_ERROR_INVALID,
                  "video.remux writes files but has no output folder; set one, with --out for kinora apply");
    // The job that owns the folder removes the files: each with its video, and all of them at the end.
    const std::filesystem::path folder = std::filesystem::path(run.out()) / "work";
    std::filesystem::create_directories(folder);
    const Media media = open_media(in);
    auto facts = facts_of(in);
    try {
      const auto made = remux(*media.source, media.name, folder / fmt::format("{}.remux", in.key()),
                              [&] { run.check_cancelled(); });
      if (!made) return emit(std::move(in));
      facts["remuxed"] = {{"from", made->from}, {"to", made->to}};
      for (const char* field : kVideoFields) in.remove(field);
      in.set("url", made->file.string());
    } catch (const MediaError& e) {
      if (options_.require) throw Error(KINORA_ERROR_DATA, e.what());
      facts["remux_failed"] = e.what();
    }
    in.set("json", facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    emit(std::move(in));
  }

 private:
  Options options_;
};

}  // namespace kinora::video

using kinora::video::VideoProbe;
using kinora::video::VideoRemux;
KINORA_COMPONENT(VideoProbe)
KINORA_COMPONENT(VideoRemux)
