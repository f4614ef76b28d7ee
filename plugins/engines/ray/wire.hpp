// Messages between the engine and its bridge, the process that talks to Ray (packaging/ray/kinora_ray/bridge.py):
// packets of host/workers/channel.hpp, whose head may carry a sample as host/workers/sample_message.hpp does.
//
// To the bridge, `is`:
//   open    address, where, insecure, log (a file): connects, and tells each node that has the labels and the same
//           Kinora
//   start   worker, node, id, options, name, devices, cores (of the node), seed, out: makes an instance
//   input   call, and a sample: one input of the call that follows
//   call    call, worker, what ("process", "process_batch", "finish")
//   take    call: what was told last has been taken, so the stage continues
//   cancel  worker: its call is asked to stop
//   stop    worker: its instance ends at once
// From the bridge:
//   node    node, state ("ready", "leaving", "lost"), address; of a ready one also cores, gpus, memory; a lost node
//           comes before its workers
//   opened  nodes: how many are ready
//   started worker, resources: those of kinora_embed_stage_resources()
//   told    worker, call, what ("emit", "drop", "fail", "hold", "stored", "made_of", with what these functions of
//           kinora_emit receive; "set": fields of the input; "beat", which is not taken)
//   done    worker, call, status, message, ended: the call is over; ended: with its instance
//   died    worker, message, lost: with its node; also instead of `started`
//   said    level, message: for the log
//   gone    message: the cluster cannot be used, and the bridge ends
#pragma once
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "kinora/sample.hpp"

namespace kinora::ray {

struct Letter {
  nlohmann::json head;
  std::optional<Sample> sample;
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

 private:
  struct Ends;
  const std::unique_ptr<Ends> ends_;
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

}  // namespace kinora::ray
