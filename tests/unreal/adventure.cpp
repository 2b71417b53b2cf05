// The frames of Unreal Engine for the adventure, in a stand-in for the engine: the tick of its actor and of the
// component, and the wait for the next frame. Prints the transcript and the times of frames:
//   adventure model.gguf content microseconds frames-a-second
#include "AdventureActor.h"
#include "Misc/Paths.h"

#include <cstring>
#include <thread>

static FString Wide(const char *text) {
    return FUTF8ToTCHAR(text, static_cast<int32>(std::strlen(text))).Get();
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    using clock = std::chrono::steady_clock;
    const auto frame = std::chrono::microseconds(1000000 / std::atoi(argv[4]));
    FPaths::Content = Wide(argv[2]);
    AAdventureActor actor;
    actor.ModelPath = Wide(argv[1]);
    actor.bPlays = true;
    actor.Chat->Budget = std::atoi(argv[3]);
    std::string shown = "shown ";
    actor.OnShown.Add([&](const FString &text) { shown += FTCHARToUTF8(*text.Replace(TEXT("\n"), TEXT(" "))).Get(); });
    actor.OnNoted.Add([](const FString &line) { std::puts(FTCHARToUTF8(*line).Get()); });
    actor.BeginPlay();
    auto before = clock::now(), next = before + frame;
    for (; !actor.IsOver() && logged.empty(); next = std::max(next + frame, clock::now())) {
        const auto now = clock::now();
        const float delta = std::chrono::duration<float>(now - before).count();
        before = now;
        actor.Tick(delta);
        actor.Chat->TickComponent(delta, LEVELTICK_All, nullptr);
        std::this_thread::sleep_until(next);
    }
    std::puts(shown.c_str());
    std::puts(logged.empty() ? FTCHARToUTF8(*actor.FrameTimes()).Get() : logged.c_str());
    actor.EndPlay(EEndPlayReason::Destroyed);
    return !logged.empty();
}
