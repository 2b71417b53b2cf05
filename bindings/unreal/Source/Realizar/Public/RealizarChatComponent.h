#pragma once

#include "Components/ActorComponent.h"
#include "CoreMinimal.h"

#include <realizar.hpp>

#include "RealizarChatComponent.generated.h"

class UTextureRenderTarget2D;

DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(FRealizarText, const FString&, Piece);
DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(FRealizarEnded, const FString&, Error);

/** Runs an LLM conversation within a frame budget: each tick computes the answer for `Budget` and fires an event for
 *  each piece of text. */
UCLASS(ClassGroup = (AI), meta = (BlueprintSpawnableComponent))
class REALIZAR_API URealizarChatComponent : public UActorComponent
{
    GENERATED_BODY()

public:
    URealizarChatComponent();

    /** A .gguf file, or a folder with config.json. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar")
    FString ModelPath;

    /** Compute threads, including the game thread; 0: one per processor, or one per fast core if cores differ. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "0"))
    int32 Threads = 1;

    /** Index of the device that Load() uses; 0: chosen by the library, 1: the CPU, GPUs follow. realizar::devices()
     *  lists them. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "0"))
    int32 Device = 0;

    /** Microseconds per frame. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "1"))
    int32 Budget = 2000;

    /** Maximum tokens of an answer, including reasoning; 0: what fits into the context. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "0"))
    int32 MaxTokens = 256;

    /** Maximum tokens of reasoning before an answer; 0: none; negative: no limit. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "-1"))
    int32 ReasoningTokens = -1;

    /** 0: greedy; negative: the model's recommended sampling parameters. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (ClampMin = "-1"))
    float Temperature = -1.0f;

    /** System message of a conversation; empty: none. */
    UPROPERTY(EditAnywhere, BlueprintReadWrite, Category = "Realizar", meta = (MultiLine = "true"))
    FString SystemMessage;

    /** Fires for each piece of an answer, in whole characters. */
    UPROPERTY(BlueprintAssignable, Category = "Realizar")
    FRealizarText OnText;

    /** Fires for each piece of reasoning before an answer. */
    UPROPERTY(BlueprintAssignable, Category = "Realizar")
    FRealizarText OnReasoning;

    /** Fires at the end of an answer, with an empty text or the error. */
    UPROPERTY(BlueprintAssignable, Category = "Realizar")
    FRealizarEnded OnEnded;

    /** Loads the model and begins a new conversation; blocks until the file is read. BeginPlay calls it if there is a
     *  path. Returns false and logs the error if it fails. Another thread may call it while nothing else of this
     *  component is called and no answer is computed. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool Load();

    /** Begins a new conversation with the model that is loaded. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool Begin();

    /** Sets the JSON schema of answers (structured output), from the next question until another model is loaded;
     *  empty: none. The first schema of a model takes some tenths of a second. Returns false and logs the error if it
     *  is invalid. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool SetSchema(const FString& Json);

    /** Adds a user message; the next ticks compute the answer. Stops an unfinished answer. If the context is full, the
     *  oldest questions and answers are dropped. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool Ask(const FString& Question);

    /** Loads the vision encoder: a GGUF file ("mmproj-...gguf"), or the model's folder. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool LoadEncoder(const FString& Path);

    /** Asks about the image of a render target, such as a scene capture. Waits for its pixels; the next ticks encode
     *  them within the budget, before the answer. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    bool AskAboutTarget(const FString& Question, UTextureRenderTarget2D* Target);

    /** Asks about pixels, row by row from the top. */
    bool AskAbout(const FString& Question, const TArray<FColor>& Pixels, int32 Width, int32 Height);

    /** Ends the answer and keeps its text in the conversation; without text, removes the question too. */
    UFUNCTION(BlueprintCallable, Category = "Realizar")
    void Stop();

    UFUNCTION(BlueprintPure, Category = "Realizar")
    bool IsAnswering() const { return bAnswering; }

    virtual void BeginPlay() override;
    virtual void EndPlay(const EEndPlayReason::Type Reason) override;
    virtual void TickComponent(float DeltaTime, ELevelTick TickType, FActorComponentTickFunction* Function) override;

private:
    /** Ends the answer for a call that changes the conversation. Returns false and logs the error if it cannot. */
    bool Interrupt(const char* Why);
    void End(const char* Why);
    /** False, and a line in the log, if a property of answers is out of range. */
    bool AreInRange() const;
    /** Begins the answer to the last message. */
    bool Answer();

    std::optional<realizar::Model> Model;
    std::optional<realizar::Conversation> Conversation;
    std::optional<realizar::Encoder> Encoder;
    /** The image of a question while it is encoded, and the question as a message in JSON. */
    std::optional<realizar::Media> Picture;
    std::string Message;
    std::optional<realizar::Grammar> Schema;
    /** Number of the answer; a tick detects by it that the receiver of an event has ended the answer. */
    uint64 Turn = 0;
    /** Messages before the question. */
    uint32 MessagesBefore = 0;
    bool bAnswering = false;
};
