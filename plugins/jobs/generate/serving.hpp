// A generate job as the process behind a model of `kinora serve`: its requests come from a socket.
#pragma once
#include "core/run/job.hpp"
#include "plugins/jobs/inference/generate_options.hpp"

namespace kinora::core {

// Loads the pipeline once and makes the videos that messages ask for, one or a batch after the other, until the socket
// ends.
// Messages are JSON, one a line:
//
//   {"check": N, "fields": {...}}                -> {"checked": N, "fields": {...}, "bytes": B, "alike": TEXT}, with
//                                                   every default and the memory of such a video, or "error"
//   {"make": ID, "folder": DIR, "fields": {...}} -> {"progress": 0.4, "video": ID}, ..., then
//                                                   {"done": {...}, "times": {...}, "video": ID} or
//                                                   {"failed": WHY, "video": ID}, with "code": "disk_full" if it is
//   {"batch": [{"make": ID, ...}, ...]}          -> the same for each; their calls of the model are made together
//   {"live": ID, "folder": DIR, "fields": {...}} -> {"start": {"mime", ...}, "live": ID}, then
//                                                   {"chunk": {...}, "file": FILE, "number": N, "live": ID}, ...,
//                                                   {"done": {...}, "live": ID} or {"failed": WHY, "live": ID};
//                                                   with "branch": {"session": ID, "chunk": N} it continues a session
//                                                   that has ended, after its first N chunks
//   {"forget": ID}                                  of a session that has ended: no other one continues it
//   {"steer": ID, ...}, of a live session: "taken": N, "pause": true, "rewind": CHUNK, or "prompt" with its "event_id"
//                                                   and what it has of a shot: "cut", "switch", "blend"; no more than
//                                                   the id: its viewer may come back
//                                                -> {"error": {...}, "live": ID} if it cannot
//   {"cancel": ID}
//
// fields: those of apps/serve/fields.hpp. alike: videos of the same text can share the calls of the model; "": none can
// with this one. DIR gets live.mp4, which plays while it grows, video.mp4 at the end, until then the finished chunks,
// with which another process continues (kept_chunks.hpp), and the pictures of Stills, or a FILE for each chunk of a
// live session; the first FILE is the beginning of the MP4. times: seconds, see VideoTimes. {"ready": {...},
// "makes_live": true, "weights": B}, with the defaults of a request and the bytes of the weights, is the first message
// but {"beat": true}, which is sent each second from the beginning on. Of several ranks, which make each video
// together, the first has the socket.
void serve_requests(JobContext& context, const GenerateOptions& options, int socket);

// The descriptor that `kinora serve` gives its processes, in KINORA_REQUESTS; -1: it did not start this one.
int socket_of_requests();

}  // namespace kinora::core
