// Messages between the engine and its bridge, the process that talks to Ray (packaging/ray/kinora_ray/bridge.py):
// packets of host/workers/channel.hpp, whose head may carry a sample as host/workers/sample_message.hpp does. `pieces`
// beside it has a number for each large field and tensor of the sample that is on a node, and 0 for each that is in the
// packet: so bytes go from node to node, and through this process only where it needs them.
//
// To the bridge, `is`; `free` in any of them are numbers of pieces that no sample has any more:
//   open    address, where, insecure, memory (bytes of samples on a node), log (a file), store (a folder for what
//           leaves the pipeline; "": none): connects, and tells each node that has the labels and the same Kinora
//   start   worker, node, id, options, name, devices, cores (of the node), seed, out: makes an instance
//   input   call, and a sample: one input of the call that follows
//   call    call, worker, what ("process", "process_batch", "finish"), home: what it emits is in the packets, whole;
//           leaves: it leaves the pipeline, so that its node may store it
//   take    call: one of the letters that were told has been taken; when all are, the next ones may be read
//   cancel  worker: its call is asked to stop
//   stop    worker: its instance ends at once
// From the bridge:
//   node    node, state ("ready", "leaving", "lost"), address; of a ready one also cores, gpus, model (of the GPUs),
//           nvdec and nvenc (where Ray has such resources; else the model says how many), memory, store (bytes of its
//           object store); of a leaving one left: seconds until it goes, null: when its work is done; a lost node
//           comes before its workers
//   opened  nodes: how many are ready
//   placed  worker: its process has begun
//   started worker, resources: those of kinora_embed_stage_resources()
//   told    worker, call, what ("emit", "drop", "fail", "hold", "stored", "made_of", with what these functions of
//           kinora_emit receive; "set": fields of the input; "beat", which is not taken); texts that the record
//           needs are in the packet; stored: {folder, files} of kinora_outcome, of a sample that is in files there
//   done    worker, call, status, message, ended: the call is over; ended: with its instance
//   died    worker, message, lost: with its node; also instead of `started`
//   lost    pieces: numbers of those whose bytes cannot be had any more
//   said    level, message: for the log
//   beat    nothing else, at least every second once it is connected: it does not stand still
//   gone    message: the cluster cannot be used, and the bridge ends
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/engines/ray/pieces.hpp"

namespace kinora::ray {

struct Letter {
  nlohmann::json head;
  std::optional<Sample> sample{};
  std::vector<Elsewhere> elsewhere{};  // of the sample
};

class Wire {
 public:
  // Takes over the socket.
  explicit Wire(int socket);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // [any-thread] Throws Error(KINORA_ERROR_IO) if the other end is gone, Error(KINORA_ERROR_UNSUPPORTED) for a sample
  // with too many large fields.
  void send(nlohmann::json head, const Sample* sample = nullptr) const;
  enum class Got { letter, nothing, closed };
  // [one thread] Waits up to this many milliseconds. Throws Error(KINORA_ERROR_DATA) for what is not a letter.
  Got receive(Letter& out, int milliseconds) const;
  Pieces& pieces() const { return *pieces_; }

 private:
  struct Ends;
  const std::unique_ptr<Ends> ends_;
  const std::shared_ptr<Pieces> pieces_ = std::make_shared<Pieces>();
};

// A program whose descriptor kEnd is its end of the wire; killed with its group by the destructor.
class BridgeProcess {
 public:
  static constexpr int kEnd = 3;
  // Starts `python -m kinora_ray bridge`. Throws Error.
  explicit BridgeProcess(const std::string& python);
  ~BridgeProcess();
  BridgeProcess(const BridgeProcess&) = delete;
  BridgeProcess& operator=(const BridgeProcess&) = delete;
  // This process's end, once.
  int socket() { return std::exchange(socket_, -1); }

 private:
  int socket_ = -1;
  int pid_ = -1;
};

// A bridge; the end of the wire comes before that of the process.
struct Bridge {
  std::shared_ptr<void> process;
  std::shared_ptr<const Wire> wire;
};

}  // namespace kinora::ray
