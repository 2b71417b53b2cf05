#include "RealizarChatComponent.h"

DEFINE_LOG_CATEGORY_STATIC(LogRealizar, Log, All);

static FString ToString(std::string_view Text)
{
    const FUTF8ToTCHAR Converted(Text.data(), static_cast<int32>(Text.size()));
    FString Made;
    Made.AppendChars(Converted.Get(), Converted.Length());
    return Made;
}

static std::string FromString(const FString& Text)
{
    const FTCHARToUTF8 Converted(*Text);
    return std::string(reinterpret_cast<const char*>(Converted.Get()), static_cast<size_t>(Converted.Length()));
}

/** False, and a line in the log, for what failed. */
template <class T> static bool Succeeded(const realizar::Result<T>& Result)
{
    if (!Result) UE_LOG(LogRealizar, Error, TEXT("%s"), *ToString(Result.error().message));
    return static_cast<bool>(Result);
}

URealizarChatComponent::URealizarChatComponent()
{
    PrimaryComponentTick.bCanEverTick = true;
}

bool URealizarChatComponent::Load()
{
    auto RuntimeParams = realizar::params<rz_runtime_params>();
    RuntimeParams.threads = static_cast<uint32>(FMath::Max(Threads, 0));
    auto Runtime = realizar::Runtime::make(RuntimeParams);
    if (!Succeeded(Runtime)) return false;
    auto ModelParams = realizar::params<rz_model_params>();
    ModelParams.runtime = Runtime->get(); // the model keeps it alive
    auto LoadedModel = realizar::Model::load(FromString(ModelPath), ModelParams);
    if (!Succeeded(LoadedModel)) return false;
    auto MadeCache = realizar::Cache::make(*LoadedModel);
    if (!Succeeded(MadeCache)) return false;
    End("another model was loaded");
    Model.emplace(std::move(*LoadedModel));
    Cache.emplace(std::move(*MadeCache));
    Messages.clear();
    return true;
}

bool URealizarChatComponent::Ask(const FString& Question)
{
    if (!Model)
    {
        UE_LOG(LogRealizar, Error, TEXT("no model is loaded"));
        return false;
    }
    End("another question was asked");
    Messages.push_back({"user", FromString(Question)});
    if (Start()) return true;
    Messages.pop_back();
    return false;
}

bool URealizarChatComponent::Start()
{
    auto Prompt = Model->try_tokenize_messages(Messages);
    if (!Succeeded(Prompt)) return false;
    auto Held = Cache->try_match(*Prompt);
    if (!Succeeded(Held)) return false;
    // The last token is always computed, because the answer starts from its logits.
    const uint32 Kept = FMath::Min(*Held, static_cast<uint32>(Prompt->size()) - 1);
    if (!Succeeded(Cache->try_truncate(Kept))) return false;
    auto Sampling = realizar::params<rz_sampler_params>();
    Sampling.temperature = Temperature;
    Sampling.top_p = 0.95f;
    Sampling.seed = ++Turn;
    auto Sampler = realizar::Sampler::make(Sampling);
    if (!Succeeded(Sampler)) return false;
    auto Params = realizar::params<rz_job_params>();
    Params.max_tokens = static_cast<uint32>(FMath::Max(MaxTokens, 0));
    Params.sampler = Temperature > 0 ? Sampler->get() : nullptr;
    auto MadeJob = realizar::Job::make(*Cache, {Prompt->data() + Kept, Prompt->size() - Kept}, Params);
    if (!Succeeded(MadeJob)) return false;
    Answer.clear();
    Job.emplace(std::move(*MadeJob));
    return true;
}

void URealizarChatComponent::Stop()
{
    End("stopped");
}

void URealizarChatComponent::End(const char* Error)
{
    if (!Job) return;
    Job.reset();
    Messages.push_back({"assistant", Answer});
    OnEnded.Broadcast(ToString(Error));
}

void URealizarChatComponent::TickComponent(float DeltaTime, ELevelTick TickType, FActorComponentTickFunction* Function)
{
    Super::TickComponent(DeltaTime, TickType, Function);
    if (!Job) return;
    auto Stepped = Job->try_step(std::chrono::microseconds(Budget));
    auto Piece = Job->try_text();
    if (Piece && !Piece->empty())
    {
        const uint64 Before = Turn;
        Answer.append(*Piece);
        OnText.Broadcast(ToString(*Piece));
        if (!Job || Turn != Before) return; // a receiver has stopped it, or asked again
    }
    if (!Stepped) End(Stepped.error().message);
    else if (!Piece) End(Piece.error().message);
    else if (*Stepped == RZ_DONE) End("");
}

void URealizarChatComponent::BeginPlay()
{
    Super::BeginPlay();
    if (!ModelPath.IsEmpty()) Load();
}

void URealizarChatComponent::EndPlay(const EEndPlayReason::Type Reason)
{
    Job.reset();
    Cache.reset();
    Model.reset();
    Super::EndPlay(Reason);
}
